//! The server: questions in, answers out.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::{Bytes, to_bytes};
use axum::extract::{RawQuery, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use dapple_report::paint::PALETTE;
use dapple_report::style_variables;
use serde::Serialize;
use serde_json::json;

use crate::asked::{Asked, Explorer};
use crate::error::ServeError;
use crate::guard::Guard;
use crate::run_routes;
use crate::runs::RunDesk;

/// The most bytes of a question. A plan is a page of text.
const MOST_ASKED: usize = 1 << 16;

/// What the page may load and do: nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
     img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = include_str!("page/page.html");
const SCRIPT: &str = include_str!("page/page.js");
const RUNS_SCRIPT: &str = include_str!("page/runs.js");
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
pub(crate) struct Server {
    guard: Arc<Guard>,
    pub(crate) explorer: Arc<Explorer>,
    pub(crate) desk: Arc<RunDesk>,
}

/// Serves the page on a port of this machine, or on a free one if it is 0, until the process ends. `ready` is told where it is.
///
/// # Guarantee
/// Nobody on another machine can reach it, and no other page in the same browser can (`Guard`). Questions about plans open no file, and
/// those about runs the files of runs that the desk found ([`RunDesk`]).
///
/// # Errors
/// A port that cannot be had, and a server that cannot go on.
pub fn serve(
    explorer: Explorer,
    desk: RunDesk,
    port: u16,
    ready: impl FnOnce(&ServerAddress),
) -> Result<(), ServeError> {
    let listen = |source| ServeError::Listen { port, source };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(listen)?;
    runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = tokio::net::TcpListener::bind(address).await.map_err(listen)?;
        let port = listener.local_addr().map_err(listen)?.port();
        let guard = Guard::new(port)?;
        ready(&ServerAddress { url: guard.address(), port });
        let server = Server { guard: Arc::new(guard), explorer: Arc::new(explorer), desk: Arc::new(desk) };
        axum::serve(listener, router(server)).await.map_err(ServeError::Stopped)
    })
}

fn router(server: Server) -> Router {
    let asked = Router::new()
        .route("/api/account", post(account))
        .route("/api/price", post(|server, body| answered(server, body, Explorer::price)))
        .route("/api/curve", post(|server, body| answered(server, body, Explorer::curve)))
        .route("/api/coverage", post(|server, body| answered(server, body, Explorer::coverage)))
        .merge(run_routes::questions())
        .route_layer(middleware::from_fn(short_json));
    let known = asked
        .merge(run_routes::pictures())
        .route_layer(middleware::from_fn_with_state(server.clone(), guarded));
    Router::new()
        .route("/", get(page))
        .route("/page.js", get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/runs.js", get(|| async { asset("text/javascript; charset=utf-8", RUNS_SCRIPT) }))
        .route("/page.css", get(|| async { asset("text/css; charset=utf-8", style()) }))
        .merge(known)
        .fallback(|| async { StatusCode::NOT_FOUND })
        .layer(middleware::from_fn_with_state(server.clone(), addressed))
        .layer(middleware::map_response(closed))
        .with_state(server)
}

/// The page, for whoever knows its address. Script and style hold no secret and need none.
async fn page(State(server): State<Server>, RawQuery(query): RawQuery) -> Response {
    let token = query.as_deref().and_then(|query| query.strip_prefix("token="));
    match token.map(|token| server.guard.admit_token(token)) {
        Some(Ok(())) => asset("text/html; charset=utf-8", PAGE),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Lets through what is asked under this server's name and by its own page.
async fn addressed(State(server): State<Server>, request: Request, next: middleware::Next) -> Response {
    match server.guard.admit_sender(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(_) => StatusCode::FORBIDDEN.into_response(),
    }
}

/// Lets through who knows the token.
async fn guarded(State(server): State<Server>, request: Request, next: middleware::Next) -> Response {
    match server.guard.admit_bearer(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(_) => StatusCode::UNAUTHORIZED.into_response(),
    }
}

/// Lets through questions in JSON that are short enough.
async fn short_json(request: Request, next: middleware::Next) -> Response {
    limited(request, next, "application/json", MOST_ASKED).await
}

/// Lets through bodies of one type, up to a length, once all of them was read.
pub(crate) async fn limited(
    request: Request,
    next: middleware::Next,
    kind: &'static str,
    most: usize,
) -> Response {
    let right = request.headers().get(CONTENT_TYPE).is_some_and(|given| given.as_bytes() == kind.as_bytes());
    if request.method() == axum::http::Method::POST && !right {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    let (head, body) = request.into_parts();
    match to_bytes(body, most).await {
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
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn asset(kind: &'static str, text: impl IntoResponse) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

/// The style of the page. A level has the colour that it has in every figure.
fn style() -> String {
    style_variables(&PALETTE) + STYLE
}

/// A plan as JSON, priced as `dapple account --json` does.
async fn account(State(server): State<Server>, body: Bytes) -> Response {
    beside(move || {
        let spec = serde_json::from_slice(&body).map_err(|error| ServeError::Question(error.to_string()))?;
        server.explorer.account(spec)
    })
    .await
}

/// Answers a question about a plan.
async fn answered<A: Serialize + Send + 'static>(
    State(server): State<Server>,
    body: Bytes,
    answer: fn(&Explorer, &Asked) -> Result<A, ServeError>,
) -> Response {
    beside(move || {
        let asked = serde_json::from_slice(&body).map_err(|error| ServeError::Question(error.to_string()))?;
        answer(&server.explorer, &asked)
    })
    .await
}

/// Computes an answer beside the server, so that others can ask meanwhile.
pub(crate) async fn beside<A: Serialize + Send + 'static>(
    job: impl FnOnce() -> Result<A, ServeError> + Send + 'static,
) -> Response {
    let (status, text) = match tokio::task::spawn_blocking(job).await {
        Ok(Ok(answer)) => (StatusCode::OK, serde_json::to_string(&answer)),
        Ok(Err(ServeError::NoRun)) => return StatusCode::NOT_FOUND.into_response(),
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
