//! `DELETE /api/{table}/{id}/{field}` of a file field: sets the field to NULL. The bytes are removed
//! after the commit.

use marmota_http::{IntoResponse, Request, Response, Status};
use marmota_web::{ApiError, ApiResult};

use super::field::{FileCondition, FileField, upload_error};
use crate::request::answer::POSITION;

/// Sets the field to NULL.
pub(crate) async fn answer(mut field: FileField, request: Request) -> Response {
    match delete(&mut field, &request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn delete(field: &mut FileField, request: &Request) -> ApiResult<Response> {
    crate::request::params::none(request)?;
    let condition = FileCondition::of(request, &field.table)?;
    let mut version = condition.row.version;
    if condition.sha256.is_some() {
        let (_, stored) = field.read_file().await?;
        condition.check(&stored)?;
        // The version protects the time between this read and the write.
        version = stored.version;
        if version.is_none() {
            return Err(ApiError::bad_request(format!(
                "`{}` has no version field, so a delete cannot depend on the tag of the file; leave \
                 `If-Match` out",
                field.table.name()
            )));
        }
    }
    let outcome = field.write(None, version).await.map_err(upload_error)?;
    let mut response = Response::from_status(Status::NO_CONTENT);
    if let Some(position) = field.submission.store().position_of(&outcome) {
        let _ = response.add_header(POSITION.into(), position.to_string().into_bytes().into());
    }
    Ok(response)
}
