//! Jobs as text and JSON, for operators.

use std::fmt;

use marmota_model::{Timestamp, text};
use serde_json::{Value, json};

use crate::models::{JobRow, JobState};
use crate::statistics::QueueStatistics;

impl JobRow {
    /// Returns the cells of a line: id, state, queue, function, attempts, time, and error or progress.
    #[must_use]
    pub fn columns(&self) -> [String; 7] {
        let at = self.finished_at.or(self.started_at).unwrap_or(self.run_at);
        let at = if self.state == JobState::Scheduled { self.run_at } else { at };
        let note = match (&self.error, self.progress) {
            (Some(error), _) => text::excerpt(error).to_string(),
            (None, Some(percent)) => {
                format!("{percent} % {}", self.progress_text.as_deref().unwrap_or_default())
            }
            (None, None) => String::new(),
        };
        [
            self.id.to_string(),
            self.state.name().to_owned(),
            self.queue.clone(),
            self.kind.clone(),
            format!("{} of {}", self.attempts, self.attempts_max),
            at.to_string(),
            note,
        ]
    }

    /// Returns the job as lines of names and values.
    #[must_use]
    pub fn details(&self) -> String {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let progress = self.progress.map(|percent| {
            format!("{percent} % {}", self.progress_text.as_deref().unwrap_or_default())
        });
        let lines = [
            ("id", Some(self.id.to_string())),
            ("state", Some(self.state.name().to_owned())),
            ("queue", Some(self.queue.clone())),
            ("function", Some(self.kind.clone())),
            ("priority", Some(self.priority.to_string())),
            ("attempts", Some(format!("{} of {}", self.attempts, self.attempts_max))),
            ("unique key", self.unique_key.clone()),
            ("enqueued", Some(self.created_at.to_string())),
            ("due", Some(self.run_at.to_string())),
            ("started", time(self.started_at)),
            ("finished", time(self.finished_at)),
            ("worker", self.holder.map(|holder| holder.to_string())),
            ("progress", progress),
            ("error", self.error.clone()),
            ("input", Some(self.input.clone())),
        ];
        let shown =
            lines.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value?)));
        shown.collect::<Vec<_>>().join("\n")
    }

    /// Returns the job as a JSON object. Times are in UTC (RFC 3339); the input is JSON too.
    ///
    /// ```
    /// # use marmota_jobs::{EnqueueJobs as _, JobAdmin, job};
    /// # use marmota_memory::Memory;
    /// # use marmota_store::Store;
    /// # #[job]
    /// # async fn send_mail(to: String) -> marmota_model::Result<()> { Ok(()) }
    /// # let store = marmota_jobs::models(Store::builder(Memory::new())).open()?;
    /// let id = store.enqueue(&SendMail { to: "ada@example.org".into() }).run()?.id;
    /// let json = JobAdmin::new(&store).get(id).run()?.to_json();
    /// assert_eq!((&json["state"], &json["input"]["to"]), (&"pending".into(), &"ada@example.org".into()));
    /// # Ok::<(), marmota_model::Error>(())
    /// ```
    #[must_use]
    pub fn to_json(&self) -> Value {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let input: Value = serde_json::from_str(&self.input).unwrap_or(Value::Null);
        json!({
            "id": self.id.to_string(),
            "state": self.state.name(),
            "queue": self.queue,
            "function": self.kind,
            "input": input,
            "priority": self.priority,
            "attempts": self.attempts,
            "attempts_max": self.attempts_max,
            "unique_key": self.unique_key,
            "progress": self.progress,
            "progress_text": self.progress_text,
            "error": self.error,
            "worker": self.holder.map(|holder| holder.to_string()),
            "enqueued_at": self.created_at.to_string(),
            "run_at": self.run_at.to_string(),
            "started_at": time(self.started_at),
            "finished_at": time(self.finished_at),
        })
    }
}

/// The numbers as one line.
impl fmt::Display for QueueStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let oldest = self.oldest_pending_ms;
        let oldest = oldest.map(|ms| format!(" (oldest {:.1} s)", ms as f64 / 1e3));
        write!(
            f,
            "{}: {} pending{}, {} scheduled, {} running, {} succeeded, {} failed, {} cancelled",
            self.queue,
            self.pending,
            oldest.unwrap_or_default(),
            self.scheduled,
            self.running,
            self.succeeded,
            self.failed,
            self.cancelled
        )
    }
}
