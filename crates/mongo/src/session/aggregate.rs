//! Aggregation pipelines: parsed from JSON with the order of members preserved, restricted to
//! stages that read, and their results returned as JSON.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use marmota_model::{Error, ErrorKind, Result, RowSink, ValueRef, text};
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use mongodb::raw_batch_cursor::RawBatch;
use tokio::sync::mpsc::Receiver;

use super::reading::TURN;
use crate::database::{BATCH_DOCUMENTS, each_document, raw};
use crate::shape::json;
use crate::shared::counts::Counts;

/// Stages that write; they would bypass the models' rules and the cache.
const WRITING: [&str; 2] = ["$out", "$merge"];

/// Builds the command for a pipeline over a collection.
pub(crate) fn command(
    collection: &str,
    pipeline: &str,
    time_max_ms: i32,
) -> Result<RawDocumentBuf> {
    let refused = |message| Err(Error::new(ErrorKind::Invalid, message));
    let stages = match serde_json::from_str(pipeline) {
        Ok(Bson::Array(stages)) => stages,
        Ok(_) => return refused("a pipeline must be a JSON array of stages".to_owned()),
        Err(error) => return refused(format!("the pipeline is not valid JSON: {error}")),
    };
    for (at, stage) in stages.iter().enumerate() {
        let names: Vec<&String> = stage.as_document().iter().flat_map(|it| it.keys()).collect();
        match names[..] {
            [name] if WRITING.contains(&name.as_str()) => {
                let message = format!(
                    "stage {at} (`{name}`) writes, which is not allowed: use the \
                                       verbs of the store to write"
                );
                return refused(message);
            }
            [name] if name.starts_with('$') => {}
            _ => {
                let stage = text::excerpt(&stage.to_string()).to_string();
                let message = format!(
                    "stage {at} must be an object with one name that begins with \
                                       `$`: {stage}"
                );
                return refused(message);
            }
        }
    }
    raw(&doc! {
        "aggregate": collection,
        "pipeline": stages,
        "cursor": { "batchSize": BATCH_DOCUMENTS },
        "maxTimeMS": time_max_ms,
    })
}

/// A running pipeline.
pub(crate) struct Aggregating {
    batches: Receiver<Result<RawBatch>>,
    json: Vec<u8>,
    rows: u64,
    engine: Arc<Counts>,
}

impl Aggregating {
    pub(crate) fn new(batches: Receiver<Result<RawBatch>>, counts: &Arc<Counts>) -> Self {
        Self { batches, json: Vec::new(), rows: 0, engine: Arc::clone(counts) }
    }

    /// Passes the received documents to `sink`. Ready with the number of documents at the end.
    pub(crate) fn poll(
        &mut self,
        sink: &mut dyn RowSink,
        context: &mut Context<'_>,
    ) -> Poll<Result<u64>> {
        let began = Instant::now();
        while let Some(batch) = ready!(self.batches.poll_recv(context)) {
            let (out, rows, mut has_enough) = (&mut self.json, &mut self.rows, false);
            each_document(&batch?, |document| {
                if !has_enough {
                    out.clear();
                    json::write_object(out, document);
                    *rows += 1;
                    let shown = std::str::from_utf8(out).unwrap_or("null");
                    has_enough = sink.row(&[ValueRef::Json(shown)]).is_break();
                }
                Ok(())
            })?;
            if has_enough {
                break;
            }
            if began.elapsed() >= TURN {
                self.engine.read_yield();
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(self.rows))
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Document;

    use super::*;

    #[test]
    fn the_order_of_members_is_kept_and_types_of_bson_are_read() {
        let stages =
            r#"[{"$sort":{"b":1,"a":-1}},{"$match":{"at":{"$date":{"$numberLong":"5"}}}}]"#;
        let command = Document::try_from(command("city", stages, 1_000).unwrap()).unwrap();
        let stages = command.get_array("pipeline").unwrap();
        let sort = stages[0].as_document().unwrap().get_document("$sort").unwrap();
        assert_eq!(sort.keys().collect::<Vec<_>>(), ["b", "a"]);
        let asked = stages[1].as_document().unwrap().get_document("$match").unwrap();
        assert_eq!(asked.get_datetime("at").unwrap().timestamp_millis(), 5);
    }

    #[test]
    fn what_is_no_pipeline_or_writes_is_refused() {
        for (pipeline, part) in [
            ("", "not valid JSON"),
            ("{}", "array"),
            (r#"[{"$match":{}},{"$out":"x"}]"#, "stage 1 (`$out`) writes"),
            (r#"[{"$merge":{"into":"x"}}]"#, "writes"),
            ("[7]", "stage 0"),
            (r#"[{"$match":{},"$limit":1}]"#, "stage 0"),
            (r#"[{"match":{}}]"#, "stage 0"),
        ] {
            let error = command("city", pipeline, 1_000).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.message().contains(part), "{pipeline}: {error}");
        }
    }
}
