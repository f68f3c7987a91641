//! The descriptions of the extractors of this crate.

use schemars::JsonSchema;

use super::{DescribeRequest, RouteDescription};
use crate::extract::{Extension, Form, Json, Path, Query, State};
use crate::message::request::Request;
use crate::proto::status::Status;

/// Describes nothing: the handler reads the request by itself.
impl DescribeRequest for Request {}

impl<S> DescribeRequest for State<S> {}

impl<T> DescribeRequest for Extension<T> {}

/// Describes nothing, because the part may be missing.
impl<T> DescribeRequest for Option<T> {}

impl<T: JsonSchema> DescribeRequest for Path<T> {
    fn describe_request(route: &mut RouteDescription<'_>) {
        route.path::<T>();
        route.error(Status::NOT_FOUND, "No resource has this path");
    }
}

impl<T: JsonSchema> DescribeRequest for Query<T> {
    fn describe_request(route: &mut RouteDescription<'_>) {
        route.query::<T>();
        route.error(Status::BAD_REQUEST, "A parameter is not valid");
    }
}

impl<T: JsonSchema> DescribeRequest for Json<T> {
    fn describe_request(route: &mut RouteDescription<'_>) {
        route.body::<T>("application/json");
        route.error(Status::BAD_REQUEST, "The request is not valid");
        route.error(Status::UNSUPPORTED_MEDIA_TYPE, "The body is not of this media type");
        route.error(Status::UNPROCESSABLE_CONTENT, "A field of the body is not valid");
    }
}

impl<T: JsonSchema> DescribeRequest for Form<T> {
    fn describe_request(route: &mut RouteDescription<'_>) {
        route.body::<T>("application/x-www-form-urlencoded");
        route.error(Status::UNPROCESSABLE_CONTENT, "A field of the form is not valid");
    }
}
