//! Questions and orders about runs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use futures_util::stream;
use serde::de::DeserializeOwned;

use crate::error::ServeError;
use crate::http::{Server, beside, limited};
use crate::runs::{ComparisonQuestion, RunDesk, RunState, SpendingConsent, StartOrder};

/// The most bytes of a picture.
const MOST_PICTURE: usize = 32 << 20;
/// Time between two looks at a run that goes on.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// A look takes at most one in this many parts of the time, because pricing a long ledger takes a while.
const PATIENCE: u32 = 10;

/// What is asked in short texts.
pub(crate) fn questions() -> Router<Server> {
    Router::new()
        .route("/api/runs", get(list).post(start))
        .route("/api/compare", post(compare))
        .route("/api/runs/{name}/events", get(events))
        .route("/api/runs/{name}/report", get(report))
        .route("/api/runs/{name}/stop", post(stop))
        .route("/api/runs/{name}/resume", post(resume))
}

/// What is asked with a picture.
pub(crate) fn pictures() -> Router<Server> {
    let bounded = |request: Request, next: middleware::Next| {
        limited(request, next, "application/octet-stream", MOST_PICTURE)
    };
    Router::new()
        .route("/api/runs/{name}/predict", post(predict))
        .route_layer(middleware::from_fn(bounded))
        // The bound above is the one that holds.
        .layer(DefaultBodyLimit::disable())
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, ServeError> {
    serde_json::from_slice(body).map_err(|error| ServeError::Question(error.to_string()))
}

async fn list(State(server): State<Server>) -> Response {
    beside(move || server.desk.list()).await
}

async fn start(State(server): State<Server>, body: Bytes) -> Response {
    beside(move || {
        let starting: StartOrder = read(&body)?;
        server.desk.start(&server.explorer, &starting)
    })
    .await
}

async fn compare(State(server): State<Server>, body: Bytes) -> Response {
    beside(move || {
        let compared: ComparisonQuestion = read(&body)?;
        server.desk.compare(&compared)
    })
    .await
}

async fn stop(State(server): State<Server>, Path(name): Path<String>) -> Response {
    beside(move || server.desk.stop(&name)).await
}

async fn resume(State(server): State<Server>, Path(name): Path<String>, body: Bytes) -> Response {
    beside(move || {
        let confirmed: SpendingConsent = read(&body)?;
        server.desk.resume(&name, &confirmed)
    })
    .await
}

async fn report(State(server): State<Server>, Path(name): Path<String>) -> Response {
    beside(move || server.desk.report(&name)).await
}

async fn predict(State(server): State<Server>, Path(name): Path<String>, body: Bytes) -> Response {
    beside(move || server.desk.predict(&name, &body)).await
}

/// The states of a run as server-sent events: one now, one after each change, and the last when nothing more will change.
async fn events(State(server): State<Server>, Path(name): Path<String>) -> Response {
    let desk = Arc::clone(&server.desk);
    let first = tokio::task::spawn_blocking({
        let name = name.clone();
        move || desk.state(&name)
    });
    match first.await {
        Ok(Ok(_)) => {}
        Ok(Err(ServeError::NoRun)) => return StatusCode::NOT_FOUND.into_response(),
        Ok(Err(_)) | Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
    let watch = RunWatch { desk: Arc::clone(&server.desk), name, shown: None, pause: Duration::ZERO };
    let changes = stream::unfold(Some(watch), |watch| async move {
        let (text, watch) = watch?.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), watch))
    });
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(changes)).into_response()
}

/// Waits for a run to change.
struct RunWatch {
    desk: Arc<RunDesk>,
    name: String,
    shown: Option<RunState>,
    pause: Duration,
}

impl RunWatch {
    /// The next event, and who waits for the one after it; nobody after the last.
    async fn next(mut self) -> Option<(String, Option<Self>)> {
        loop {
            tokio::time::sleep(self.pause).await;
            let (desk, name) = (Arc::clone(&self.desk), self.name.clone());
            let began = Instant::now();
            let state = tokio::task::spawn_blocking(move || desk.state(&name)).await.ok()?.ok()?;
            self.pause = LOOK_EVERY.max(began.elapsed() * PATIENCE);
            if self.shown.as_ref() == Some(&state) {
                continue;
            }
            let text = format!("data: {}\n\n", serde_json::to_string(&state).ok()?);
            let goes_on = state.goes_on();
            self.shown = Some(state);
            return Some((text, goes_on.then_some(self)));
        }
    }
}
