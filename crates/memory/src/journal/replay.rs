//! What the records of logs change: the tables, and the last state of each row that they have written.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use hashbrown::HashMap;
use marmota_model::{Error, ErrorKind, Result, ValueForm};

use super::changes::{self, Change, Definition, Payload};
use crate::data_file::binary_section::{BinarySection, Part};
use crate::data_file::contents::Section;
use crate::data_file::row_codec::form_number;

/// The state of the logs read so far.
#[derive(Default)]
pub(crate) struct Replay {
    pub(crate) schema: u32,
    /// The tables that the next records refer to.
    pub(crate) definitions: Vec<Arc<Definition>>,
    /// The rows that are not in the sections of a file yet.
    changed: BTreeMap<String, Changed>,
}

/// A key as encoded in a row, after its form.
type Key = Box<[u8]>;

/// The rows of a table that logs have changed.
#[derive(Default)]
struct Changed {
    /// The field that is the key.
    key: String,
    rows: HashMap<Key, Option<Image>>,
}

/// A row in a log.
struct Image {
    log: Arc<Vec<u8>>,
    definition: Arc<Definition>,
    range: Range<usize>,
}

impl Replay {
    /// Takes over a payload of a log; `None` if it cannot be decoded.
    pub(super) fn take(&mut self, log: &Arc<Vec<u8>>, payload: Range<usize>) -> Option<()> {
        match changes::read(log, payload, &self.definitions)? {
            Payload::Tables { schema, definitions } => {
                (self.schema, self.definitions) = (schema, definitions);
                Some(())
            }
            Payload::Changes(changes) => {
                changes.into_iter().try_for_each(|change| self.keep(log, change))
            }
        }
    }

    /// Keeps the change of a row for the section of its table.
    pub(crate) fn keep(&mut self, log: &Arc<Vec<u8>>, change: Change) -> Option<()> {
        let definition = self.definitions.get(change.table)?;
        let (key, form) = &definition.fields[definition.key];
        let changed = self.changed.entry(definition.name.clone()).or_default();
        changed.key.clone_from(key);
        let image = change.row.map(|range| Image {
            log: Arc::clone(log),
            definition: Arc::clone(definition),
            range,
        });
        changed.rows.insert(key_of(*form, &log[change.key]), image);
        Some(())
    }

    /// Adds sections for the tables of the log that have no rows, unless they are open.
    pub(crate) fn add_empty(
        &self,
        tables: &mut BTreeMap<String, Section>,
        is_open: impl Fn(&str) -> bool,
    ) {
        for definition in self.definitions.iter().filter(|table| !is_open(&table.name)) {
            let fields = &definition.fields;
            tables.entry(definition.name.clone()).or_insert_with(|| {
                let (content, blocks) = (Arc::default(), Vec::new());
                let parts = vec![Part { content, fields: fields.clone(), blocks }];
                Section::Binary(BinarySection { parts })
            });
        }
    }

    /// Replaces rows of sections by those that are kept.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if they do not fit.
    pub(crate) fn put_into(
        &mut self,
        tables: &mut BTreeMap<String, Section>,
        path: &Path,
    ) -> Result<()> {
        for (name, changed) in std::mem::take(&mut self.changed) {
            let section = match tables.remove(&name) {
                None => Some(BinarySection { parts: Vec::new() }),
                Some(Section::Binary(section)) => Some(section),
                Some(Section::Json(_)) => None,
            };
            let merged =
                section.and_then(|section| changed.put_into(section)).ok_or_else(|| {
                    let message = format!(
                        "{}: the log has changes to `{name}` that do not match its rows: use the \
                     program that wrote the log",
                        path.display()
                    );
                    Error::new(ErrorKind::Invalid, message)
                })?;
            tables.insert(name, Section::Binary(merged));
        }
        Ok(())
    }
}

fn key_of(form: ValueForm, bytes: &[u8]) -> Key {
    [&[form_number(form)], bytes].concat().into()
}

impl Changed {
    /// Returns the rows of a snapshot that no log has changed, and the rows of the logs.
    fn put_into(self, mut section: BinarySection) -> Option<BinarySection> {
        section.retain(&self.key, |form, key| !self.rows.contains_key(&key_of(form, key)))?;
        let mut images: Vec<Image> = self.rows.into_values().flatten().collect();
        // Rows of the same log and shape come together, in the order in which they were written.
        let place = |image: &Image| {
            let log = Arc::as_ptr(&image.log) as usize;
            (log, Arc::as_ptr(&image.definition) as usize, image.range.start)
        };
        images.sort_unstable_by_key(place);
        let same = |a: &Image, b: &Image| {
            Arc::ptr_eq(&a.log, &b.log) && Arc::ptr_eq(&a.definition, &b.definition)
        };
        for run in images.chunk_by(same) {
            section.parts.push(Part {
                content: Arc::clone(&run[0].log),
                fields: run[0].definition.fields.clone(),
                blocks: run.iter().map(|image| (image.range.clone(), 1)).collect(),
            });
        }
        Some(section)
    }
}
