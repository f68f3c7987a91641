//! The document of a live page: its JSON, and its changes as a JSON Patch (RFC 6902).

use std::sync::Arc;

use marmota_model::{FieldSet, SortKey, Table, json};
use marmota_store::live::{LiveContent, LiveRow, LiveRows, LiveUpdate, PageEnd, RowPatch};

use crate::protocol::cursor;
use crate::request::params::ListParams;
use crate::rows::page_document;

/// The document of a page whose changes are sent.
#[derive(Debug)]
pub(crate) struct LiveDocument {
    table: Arc<Table>,
    /// The fields of the rows.
    shown: FieldSet,
    /// The order, with the key as its last part.
    order: Vec<SortKey>,
    /// The URL of the page: path and query.
    target: Box<str>,
}

impl LiveDocument {
    /// Creates the document of a page. `target` is its URL: path and query.
    pub(crate) fn new(table: &Arc<Table>, params: &ListParams, target: &str) -> Self {
        Self {
            table: Arc::clone(table),
            shown: params.shown,
            order: params.query.order_with_key(table),
            target: target.into(),
        }
    }

    /// Returns the table.
    pub(crate) const fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the URL: path and query.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// Returns the name of an update and its data: `snapshot` with the document, or `patch` with
    /// the changes.
    pub(crate) fn render(&self, update: &LiveUpdate) -> (&'static str, Vec<u8>) {
        match &update.content {
            LiveContent::Snapshot(rows) => ("snapshot", self.page(rows, &update.end)),
            LiveContent::Patch { patches, before } => {
                ("patch", self.patch(patches, before, &update.end))
            }
        }
    }

    /// Returns the document of a page.
    fn page(&self, rows: &[LiveRow], end: &PageEnd) -> Vec<u8> {
        let (mut body, mut writer) = (page_document::BEGIN.to_vec(), json::RowWriter::new());
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                body.push(b',');
            }
            writer.write(&mut body, &self.table, self.shown, &LiveRows::borrowed(row));
        }
        page_document::write_end(&mut body, self.next(end).as_deref(), end.count, &[]);
        body
    }

    /// Returns the changes of a page as a JSON Patch.
    fn patch(&self, patches: &[RowPatch], before: &PageEnd, end: &PageEnd) -> Vec<u8> {
        let mut body = vec![b'['];
        let mut writer = json::RowWriter::new();
        for patch in patches {
            match patch {
                RowPatch::Remove { index } => {
                    begin_operation(&mut body, "remove", &format!("/rows/{index}"));
                    body.push(b'}');
                }
                RowPatch::Add { index, row } => {
                    begin_operation(&mut body, "add", &format!("/rows/{index}"));
                    body.extend_from_slice(b",\"value\":");
                    writer.write(&mut body, &self.table, self.shown, &LiveRows::borrowed(row));
                    body.push(b'}');
                }
                RowPatch::Update { index, row, changed } => {
                    for place in changed.iter() {
                        let field = &self.table.fields()[place];
                        let path = format!("/rows/{index}/{}", escaped(&field.name));
                        begin_operation(&mut body, "replace", &path);
                        body.extend_from_slice(b",\"value\":");
                        json::write_value_as(&mut body, &field.kind, row[place].as_ref());
                        body.push(b'}');
                    }
                }
            }
        }
        let next = self.next(end);
        if self.next(before) != next {
            begin_operation(&mut body, "replace", "/next");
            body.extend_from_slice(b",\"value\":");
            page_document::write_next(&mut body, next.as_deref());
            body.push(b'}');
        }
        if let Some(count) = end.count.filter(|_| end.count != before.count) {
            begin_operation(&mut body, "replace", "/count");
            body.extend_from_slice(format!(",\"value\":{count}}}").as_bytes());
        }
        body.push(b']');
        body
    }

    /// Returns the URL of the next page, if one follows.
    fn next(&self, end: &PageEnd) -> Option<String> {
        let last = end.last.as_ref().filter(|_| end.has_more)?;
        let cursor = cursor::write(&self.table, &self.order, &[], &LiveRows::borrowed(last));
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        Some(page_document::next_url(path, query, &cursor))
    }
}

/// Appends the begin of an operation of a JSON Patch, up to its path.
fn begin_operation(body: &mut Vec<u8>, operation: &str, path: &str) {
    if body.last() == Some(&b'}') {
        body.push(b',');
    }
    body.extend_from_slice(format!("{{\"op\":\"{operation}\",\"path\":").as_bytes());
    json::write_string(body, path);
}

/// Returns a name as a part of a JSON Pointer (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
