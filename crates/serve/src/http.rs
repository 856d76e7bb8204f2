//! The server: questions in, answers out.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::{Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use serde::Serialize;
use serde_json::json;

use crate::asked::{Asked, Explorer};
use crate::error::ServeError;
use crate::guard::{Guard, Refusal};

/// The most bytes of a question. A plan is a page of text.
const MOST_ASKED: usize = 1 << 16;

/// What the page may load and do: nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
     img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = include_str!("page/page.html");
const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");

/// Where the page is.
#[derive(Debug, Clone)]
pub struct ServerAddress {
    /// The whole address, with the secret that lets its holder ask.
    pub url: String,
    /// The port.
    pub port: u16,
}

#[derive(Clone)]
struct Server {
    guard: Arc<Guard>,
    explorer: Arc<Explorer>,
}

/// Serves the page on a port of this machine, or on a free one if it is 0, until the process ends. `ready` is told where it is.
///
/// # Guarantee
/// Nobody on another machine can reach it, and no other page in the same browser can ([`Guard`]). It opens no file.
///
/// # Errors
/// A port that cannot be had, and a server that cannot go on.
pub fn serve(explorer: Explorer, port: u16, ready: impl FnOnce(&ServerAddress)) -> Result<(), ServeError> {
    let listen = |source| ServeError::Listen { port, source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(listen)?;
    runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = tokio::net::TcpListener::bind(address).await.map_err(listen)?;
        let port = listener.local_addr().map_err(listen)?.port();
        let guard = Guard::new(port)?;
        ready(&ServerAddress { url: guard.address(), port });
        let server = Server { guard: Arc::new(guard), explorer: Arc::new(explorer) };
        axum::serve(listener, router(server)).await.map_err(ServeError::Stopped)
    })
}

fn router(server: Server) -> Router {
    Router::new()
        .route("/{token}/", get(|| async { asset("text/html; charset=utf-8", PAGE) }))
        .route("/{token}/page.js", get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/{token}/page.css", get(|| async { asset("text/css; charset=utf-8", STYLE) }))
        .route("/{token}/price", post(|server, body| answered(server, body, Explorer::price)))
        .route("/{token}/curve", post(|server, body| answered(server, body, Explorer::curve)))
        .route("/{token}/coverage", post(|server, body| answered(server, body, Explorer::coverage)))
        .route_layer(middleware::from_fn_with_state(server.clone(), guarded))
        .fallback(|| async { StatusCode::NOT_FOUND })
        .layer(middleware::map_response(closed))
        .with_state(server)
}

/// Lets through who may ask, and what is short enough.
async fn guarded(
    State(server): State<Server>,
    Path(token): Path<String>,
    request: Request,
    next: middleware::Next,
) -> Response {
    match server.guard.admit(&token, request.headers()) {
        Err(Refusal::Token) => return StatusCode::NOT_FOUND.into_response(),
        Err(Refusal::Sender) => return StatusCode::FORBIDDEN.into_response(),
        Ok(()) => {}
    }
    let json = request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == b"application/json");
    if request.method() == axum::http::Method::POST && !json {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    let (head, body) = request.into_parts();
    match to_bytes(body, MOST_ASKED).await {
        Ok(body) => next.run(Request::from_parts(head, body.into())).await,
        Err(_) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
    }
}

/// Tells the browser to keep the page to itself.
async fn closed(mut response: Response) -> Response {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

/// Computes an answer beside the server, so that others can ask meanwhile.
async fn answered<A: Serialize + Send + 'static>(
    State(server): State<Server>,
    body: Bytes,
    answer: fn(&Explorer, &Asked) -> Result<A, ServeError>,
) -> Response {
    let job = move || {
        let asked = serde_json::from_slice(&body).map_err(|error| ServeError::Question(error.to_string()))?;
        answer(&server.explorer, &asked)
    };
    let (status, text) = match tokio::task::spawn_blocking(job).await {
        Ok(Ok(answer)) => (StatusCode::OK, serde_json::to_string(&answer)),
        Ok(Err(error)) => {
            let told = json!({ "problem": error.to_string(), "hint": error.hint() });
            (StatusCode::UNPROCESSABLE_ENTITY, serde_json::to_string(&told))
        }
        Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    match text {
        Ok(text) => (status, [(CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
