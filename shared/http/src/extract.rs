//! What a request carries. What can't be read is answered by a problem that says what to do, as everything else is.

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The largest body: an event may have 1 MB, as on the product's other bus.
pub(crate) const LARGEST_BODY: usize = 1_048_576;

/// The parts of a path.
pub(crate) struct Path<T>(pub T);
/// The parameters of a query.
pub(crate) struct Query<T>(pub T);
/// A body of JSON.
pub(crate) struct Json<T>(pub T);
/// A body as it came.
pub(crate) struct Raw(pub Bytes);
/// No parameters at all.
pub(crate) struct NoQuery;

/// How many are listed: as many as are asked for, or the most that a page has.
pub(crate) fn limit(asked: Option<u32>, most: u32) -> Result<u32, Problem> {
    let limit = asked.unwrap_or(most);
    if limit == 0 || limit > most {
        let detail = format!("limit must be from 1 to {most}; ask for the next page with after");
        return Err(Problem::new(400, "invalid-query", detail));
    }
    Ok(limit)
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let wrong = |e: PathRejection| {
            Problem::new(400, "invalid-path", format!("{}; check the ids in the path", e.body_text()))
        };
        axum::extract::Path::from_request_parts(parts, state).await.map(|p| Path(p.0)).map_err(wrong)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let wrong = |e: QueryRejection| {
            Problem::new(400, "invalid-query", format!("{}; correct the query", e.body_text()))
        };
        axum::extract::Query::from_request_parts(parts, state).await.map(|q| Query(q.0)).map_err(wrong)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let name = query.split(['=', '&']).next().unwrap_or_default();
        if query.is_empty() {
            return Ok(NoQuery);
        }
        let detail = format!("{} takes no query parameter; leave out {name:?}", parts.uri.path());
        Err(Problem::new(400, "invalid-query", detail))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;
    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let wrong = |e: JsonRejection| match e {
            JsonRejection::MissingJsonContentType(_) => {
                Problem::new(415, "not-json", "send JSON, with the header `content-type: application/json`")
            }
            other if other.status() == StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            other => Problem::new(400, "invalid-body", format!("{}; correct the body", other.body_text())),
        };
        axum::Json::from_request(request, state).await.map(|j| Json(j.0)).map_err(wrong)
    }
}

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Problem;
    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let wrong = |e: BytesRejection| match e.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => Problem::new(400, "invalid-body", format!("{}; send it again", e.body_text())),
        };
        Bytes::from_request(request, state).await.map(Raw).map_err(wrong)
    }
}

fn too_large() -> Problem {
    let detail = format!("the body is larger than {LARGEST_BODY} bytes; send less at once");
    Problem::new(413, "too-large", detail)
}

/// Nothing is there.
pub(crate) async fn no_route(uri: Uri) -> Problem {
    Problem::new(404, "no-route", format!("there is nothing at {}; check the path", uri.path()))
}

/// Something is there, but not for this method.
pub(crate) async fn no_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} doesn't take {method}; use the method that it allows", uri.path());
    Problem::new(405, "no-method", detail)
}
