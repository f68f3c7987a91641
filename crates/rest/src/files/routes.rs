//! The calls of the routes of file fields, with the field in the path.

use marmota_http::{Flow, Request, Response};

use super::field::FileField;
use super::{delete, download, upload};
use crate::request::answer::{Out, refuse};
use crate::request::request_context::RequestContext;

/// Answers a read of a file.
pub(crate) fn download(context: RequestContext<'_>, out: &mut Out<'_, '_>) -> Flow {
    begin(context, out, download::answer)
}

/// Answers a write of a file.
pub(crate) fn upload(context: RequestContext<'_>, out: &mut Out<'_, '_>) -> Flow {
    begin(context, out, upload::answer)
}

/// Answers the removal of a file.
pub(crate) fn delete(context: RequestContext<'_>, out: &mut Out<'_, '_>) -> Flow {
    begin(context, out, delete::answer)
}

/// Calls a route with the file field in the path.
pub(crate) fn begin<T>(
    context: RequestContext<'_>,
    out: &mut Out<'_, '_>,
    answer: fn(FileField, Request) -> T,
) -> Flow
where
    T: Future<Output = Response> + 'static,
{
    match FileField::of(context) {
        Ok(field) => Flow::Later(Box::pin(answer(field, context.request.clone()))),
        Err(error) => {
            refuse(error, out);
            Flow::Done
        }
    }
}
