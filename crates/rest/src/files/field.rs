//! What the routes of files have in common: the field in the path, the row's file, and the write of
//! a file to its row.

use std::ops::ControlFlow;
use std::sync::Arc;

use marmota_files::{File, FileLimits, FileStorage};
use marmota_http::{Request, Status};
use marmota_model::{
    Error, ErrorKind, FieldSet, Kind, NoRows, Result as ModelResult, Scratch, Table, Value,
    ValueRef,
};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::prepare::{self, ValueSource, WriteTimestamp};
use marmota_web::{ApiError, ApiResult};

use crate::protocol::body::{self, empty_row};
use crate::protocol::etag::{self, Condition};
use crate::protocol::key;
use crate::request::request_context::RequestContext;
use crate::request::submission::Submission;
use crate::rows::get::no_row;

/// The file field of a row, as the path names it.
pub(crate) struct FileField {
    pub(crate) storage: FileStorage,
    pub(crate) table: Arc<Table>,
    pub(crate) key: Value,
    pub(crate) field: usize,
    pub(crate) submission: Submission,
}

/// A row's file, as it is committed.
pub(crate) struct StoredFile {
    /// The version of the row, if its table has one.
    pub(crate) version: Option<i64>,
    pub(crate) file: Option<File>,
}

/// Returns true if the path names a file field.
pub(crate) fn is_named(context: RequestContext<'_>) -> bool {
    let name = context.request.param("field").unwrap_or_default();
    let field = context.table().find(&name).map(|field| &context.table().fields()[field]);
    field.is_some_and(|field| matches!(field.kind, Kind::File { .. }))
}

impl FileField {
    /// Returns the field in the path.
    ///
    /// # Errors
    /// 404 if the table has no such file field, 400 for an invalid key, 501 without a storage.
    pub(crate) fn of(context: RequestContext<'_>) -> ApiResult<Self> {
        let durability = body::durability(context.request)?;
        Self::with(context, Submission::of_long(context, durability))
    }

    /// Returns the field in the path, for a read with the store of the API instead of a caller's.
    ///
    /// # Errors
    /// As for [`FileField::of`].
    pub(crate) fn of_api(context: RequestContext<'_>) -> ApiResult<Self> {
        Self::with(context, Submission::new(context.api.store.clone(), None, None))
    }

    fn with(context: RequestContext<'_>, submission: Submission) -> ApiResult<Self> {
        let table = context.subject;
        let name = context.request.param("field").unwrap_or_default();
        let field = match table.find(&name) {
            Some(field) if is_named(context) => field,
            _ => {
                return Err(body::no_resource(format!(
                    "`{}` has no file field `{}`",
                    table.name(),
                    marmota_model::text::excerpt(&name)
                )));
            }
        };
        Ok(Self {
            storage: storage(context)?,
            table: Arc::clone(table),
            key: key::of_path(context.request, table)?,
            field,
            submission,
        })
    }

    /// Returns the name of the field.
    pub(crate) fn name(&self) -> &str {
        &self.table.fields()[self.field].name
    }

    /// Returns the limits of the field.
    pub(crate) fn limits(&self) -> ModelResult<FileLimits> {
        FileLimits::new(&self.table, self.name())
    }

    /// Returns the text that a signed URL signs: neither tables nor fields have slashes.
    pub(crate) fn resource(&self) -> String {
        let key = self.key.as_ref();
        let mut text = Vec::new();
        marmota_model::json::write_value(&mut text, key);
        format!("{}/{}/{}", self.table.name(), String::from_utf8_lossy(&text), self.name())
    }

    /// Reads the row's file.
    ///
    /// # Errors
    /// 404 if the row does not exist, or the caller may not read it.
    pub(crate) async fn read(&mut self) -> ApiResult<StoredFile> {
        let Self { table, key, field, submission, .. } = self;
        let fields = FieldSet::EMPTY.with(*field);
        let fields = table.version().map_or(fields, |version| fields.with(version));
        let mut stored = None;
        std::future::poll_fn(|task| {
            let mut sink = |row: &[ValueRef<'_>]| {
                stored = Some(StoredFile {
                    version: table.version().and_then(|version| row[version].as_int()),
                    file: match row[*field] {
                        ValueRef::Json(json) => File::parse(json),
                        _ => None,
                    },
                });
                ControlFlow::Break(())
            };
            submission.poll(
                &mut Operation::Get { table, key: key.as_ref(), fields },
                &mut sink,
                task,
            )
        })
        .await?;
        stored.ok_or_else(|| no_row(table, key.as_ref()).into())
    }

    /// Reads the row's file, which must exist.
    ///
    /// # Errors
    /// 404 if the row does not exist, or has no file.
    pub(crate) async fn read_file(&mut self) -> ApiResult<(File, StoredFile)> {
        let stored = self.read().await?;
        match stored.file.clone() {
            Some(file) => Ok((file, stored)),
            None => Err(body::no_resource(format!("field `{}` of this row is null", self.name()))),
        }
    }

    /// Writes a file, or NULL, to the row.
    ///
    /// # Errors
    /// Those of the update of a row.
    pub(crate) async fn write(
        &mut self,
        file: Option<&File>,
        version: Option<i64>,
    ) -> ModelResult<Outcome> {
        let Self { table, key, field, submission, .. } = self;
        let stamp = WriteTimestamp::now(table);
        let json = file.map(File::to_json);
        std::future::poll_fn(|task| {
            let scratch = Scratch::new();
            let mut row = empty_row(table);
            row[*field] = json.as_deref().map_or(ValueRef::Null, ValueRef::Json);
            prepare::update(table, &mut row, ValueSource::Values, stamp, &scratch)?;
            let key = key.as_ref();
            let mut operation = Operation::Update { table, key, row: &row, version };
            submission.poll(&mut operation, &mut NoRows, task)
        })
        .await
    }
}

/// The condition of a write: of the row, or of the file.
#[derive(Default)]
pub(crate) struct FileCondition {
    pub(crate) row: Condition,
    /// The digest in `If-Match`, if it has the tag of a file.
    pub(crate) sha256: Option<String>,
}

impl FileCondition {
    /// Parses `If-Match`: the version of the row, or the tag of the file.
    ///
    /// # Errors
    /// Those of [`etag::condition`].
    pub(crate) fn of(request: &Request, table: &Table) -> ApiResult<Self> {
        let sha256 = request.header_text("if-match").and_then(digest_of_tag).map(str::to_owned);
        match sha256 {
            Some(_) => Ok(Self { row: Condition::default(), sha256 }),
            None => Ok(Self { row: etag::condition(request, table)?, sha256: None }),
        }
    }

    /// Checks the row's file, before it is replaced.
    ///
    /// # Errors
    /// 412 if the row has another version or another file.
    pub(crate) fn check(&self, stored: &StoredFile) -> ApiResult<()> {
        let is_row = self.row.version.is_none() || self.row.version == stored.version;
        let file = stored.file.as_ref().map(|file| &file.sha256);
        let is_file = self.sha256.is_none() || self.sha256.as_ref() == file;
        match is_row && is_file {
            true => Ok(()),
            false => Err(etag::stale(
                "the file or its row was changed meanwhile; read it again".to_owned(),
            )),
        }
    }
}

/// Returns the tag of a file: its digest.
pub(crate) fn tag(file: &File) -> String {
    format!("\"{}\"", file.sha256)
}

fn digest_of_tag(tag: &str) -> Option<&str> {
    let tag = tag.trim();
    let digest = tag.strip_prefix("W/").unwrap_or(tag).strip_prefix('"')?.strip_suffix('"')?;
    (digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digest)
}

/// Returns the storage of the API.
///
/// # Errors
/// 501 if it has none.
pub(crate) fn storage(context: RequestContext<'_>) -> ApiResult<FileStorage> {
    context.api.files.clone().ok_or_else(|| {
        let message = "this server has no storage of files: start it with `--files`, or call \
                       `Api::files`";
        Error::new(ErrorKind::Unsupported, message).into()
    })
}

/// Returns the error of an upload with its status: 413 for a file that is too large, 415 for one of
/// another type.
pub(crate) fn upload_error(error: Error) -> ApiError {
    let status = match error.violations() {
        [one] if one.rule == "bytes_max" => Some(Status::CONTENT_TOO_LARGE),
        [one] if one.rule == "types" => Some(Status::UNSUPPORTED_MEDIA_TYPE),
        _ if error.kind() == ErrorKind::Stale => Some(Status::PRECONDITION_FAILED),
        _ => None,
    };
    match status {
        Some(status) => ApiError::from(error).with_status(status),
        None => error.into(),
    }
}
