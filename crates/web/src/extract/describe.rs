//! The descriptions of the caller's arguments and of [`ApiError`] for OpenAPI.

use marmota_http::Status;
use marmota_http::describe::{DescribeRequest, DescribeResponse, RouteDescription};

#[cfg(feature = "auth")]
use super::Caller;
use super::{CallerStore, Transaction};
use crate::ApiError;

/// Adds the answers to callers who are not permitted.
fn of_caller(route: &mut RouteDescription<'_>) {
    route.secured();
    route.error(Status::UNAUTHORIZED, "The caller is not authenticated");
    route.error(Status::FORBIDDEN, "The caller has no right to this");
}

#[cfg(feature = "auth")]
impl DescribeRequest for Caller {
    fn describe_request(route: &mut RouteDescription<'_>) {
        of_caller(route);
    }
}

impl DescribeRequest for CallerStore {
    fn describe_request(route: &mut RouteDescription<'_>) {
        of_caller(route);
    }
}

impl DescribeRequest for Transaction {
    fn describe_request(route: &mut RouteDescription<'_>) {
        of_caller(route);
        route.error(Status::CONFLICT, "Another transaction has changed the same rows; try again");
    }
}

/// Describes nothing: each answer without a description is an error of this form.
impl DescribeResponse for ApiError {}
