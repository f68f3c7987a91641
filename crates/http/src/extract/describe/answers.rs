//! The descriptions of the answers of this crate.

use schemars::JsonSchema;

use super::{DescribeResponse, RouteDescription};
use crate::extract::Json;
use crate::message::response::{Html, Response};
use crate::proto::status::Status;

/// Describes nothing: the handler decides when it runs.
impl DescribeResponse for Response {}

/// Describes nothing: the handler decides when it runs. Use
/// [`DescribedHandler::error`](crate::DescribedHandler::error) or `DescribedHandler::empty`.
impl DescribeResponse for Status {}

impl DescribeResponse for crate::HeaderError {}

impl DescribeResponse for crate::BodyError {}

impl DescribeResponse for std::convert::Infallible {}

impl DescribeResponse for () {
    fn describe_response(route: &mut RouteDescription<'_>) {
        route.empty_response(Status::NO_CONTENT, "Done");
    }
}

impl DescribeResponse for String {
    fn describe_response(route: &mut RouteDescription<'_>) {
        route.text_response(Status::OK, "The text", "text/plain");
    }
}

impl DescribeResponse for &'static str {
    fn describe_response(route: &mut RouteDescription<'_>) {
        route.text_response(Status::OK, "The text", "text/plain");
    }
}

impl<T> DescribeResponse for Html<T> {
    fn describe_response(route: &mut RouteDescription<'_>) {
        route.text_response(Status::OK, "The page", "text/html");
    }
}

impl<T: JsonSchema> DescribeResponse for Json<T> {
    fn describe_response(route: &mut RouteDescription<'_>) {
        route.response::<T>(Status::OK, "The result", "application/json");
    }
}

impl<T: DescribeResponse, E: DescribeResponse> DescribeResponse for Result<T, E> {
    fn describe_response(route: &mut RouteDescription<'_>) {
        T::describe_response(route);
        E::describe_response(route);
    }
}
