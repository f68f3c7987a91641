//! Responses that all families of routes share.

use marmota::prelude::*;

use crate::fortune::{Line, write_page};

pub(crate) fn json(value: &impl serde::Serialize) -> Result<Response, ApiError> {
    let body = serde_json::to_vec(value).map_err(std::io::Error::from).map_err(Error::from)?;
    Ok(Response::json_bytes(body))
}

/// The page of fortunes, each with its number and message.
pub(crate) fn page<'a>(
    fortunes: impl Iterator<Item = (i64, &'a str)>,
) -> Result<Response, ApiError> {
    let lines = fortunes.map(|(id, message)| Line { id, message }).collect();
    let mut body = Vec::with_capacity(2048);
    write_page(lines, &mut body).map_err(Error::from)?;
    Ok(Response::with_body("text/html; charset=utf-8", body))
}
