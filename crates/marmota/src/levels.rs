//! The log of a program, with a filter that can be changed at run time. It is based on
//! [`tracing_subscriber`] and also receives the records of the crate `log`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use marmota_http::BackgroundWriter;
use marmota_model::{Error, ErrorKind, Result};
use marmota_rest::LogLevels;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// How long a program waits at its end for the reader of its log.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A boxed layer of the subscriber.
pub(crate) type AnyLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The form of the lines of a [`Log`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level, target and message.
    #[default]
    Text,
    /// A JSON object with `timestamp`, `level`, `target`, `message` and the fields of the event.
    Json,
}

/// A log on stderr, and its filter. A separate thread writes the lines, so that a pipe that is not
/// read blocks no one: up to 4 MiB of lines are buffered, further lines are dropped. When the log
/// is dropped, it waits up to a second for the buffered lines.
pub struct Log {
    /// The text of the current filter.
    filter: Mutex<String>,
    /// The thread that writes the lines.
    writer: BackgroundWriter,
    /// The filter inside the subscriber.
    targets: reload::Handle<Targets, Registry>,
}

impl Log {
    /// Starts the log of the whole process with a filter: a level (`off`, `error`, `warn`, `info`,
    /// `debug`, `trace`), optionally followed by levels for targets: `info,marmota::slow=off`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid filter, [`ErrorKind::Conflict`] if the process already
    /// has a log.
    ///
    /// ```no_run
    /// use marmota::Log;
    /// use marmota::rest::LogLevels;
    ///
    /// let log = Log::start("info,marmota::slow=off")?;
    /// log.set_filter("debug")?;
    /// assert_eq!(log.filter(), "debug");
    /// # Ok::<(), marmota::model::Error>(())
    /// ```
    pub fn start(filter: &str) -> Result<Arc<Self>> {
        Self::with_format(filter, LogFormat::Text)
    }

    /// As [`Log::start`], with lines in this form.
    ///
    /// # Errors
    /// Those of [`Log::start`].
    ///
    /// ```no_run
    /// use marmota::{Log, LogFormat};
    /// let _log = Log::with_format("info", LogFormat::Json)?;
    /// # Ok::<(), marmota::model::Error>(())
    /// ```
    pub fn with_format(filter: &str, format: LogFormat) -> Result<Arc<Self>> {
        Self::with_recent(filter, format, None, None)
    }

    /// Starts the log with a second place for its lines, and another layer of the subscriber, such as
    /// that of telemetry.
    pub(crate) fn with_recent(
        filter: &str,
        format: LogFormat,
        recent: Option<&RecentLines>,
        other: Option<AnyLayer>,
    ) -> Result<Arc<Self>> {
        let (layer, targets) = reload::Layer::new(parse(filter)?);
        let writer = BackgroundWriter::new("marmota-log", std::io::stderr()).map_err(|error| {
            Error::new(ErrorKind::Io, "the thread of the log cannot be started").with_source(error)
        })?;
        let of_lines = LineWriter { writer: writer.clone(), recent: recent.cloned() };
        let lines = fmt::layer().with_writer(move || of_lines.clone());
        // Otherwise the layer would report a closed stderr on stderr, and panic.
        let lines = lines.log_internal_errors(false);
        let lines = match format {
            LogFormat::Text => lines.with_filter(layer).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).with_filter(layer).boxed(),
        };
        let layers: Vec<_> = other.into_iter().chain([lines]).collect();
        tracing_subscriber::registry().with(layers).try_init().map_err(|error| {
            Error::new(ErrorKind::Conflict, format!("the process has a log already: {error}"))
        })?;
        Ok(Arc::new(Self { filter: Mutex::new(filter.to_owned()), writer, targets }))
    }
}

/// The ring for the last lines of the log.
#[cfg(feature = "operations")]
pub(crate) type RecentLines = crate::operations::RecentLog;
/// Has no values, because the feature is off.
#[cfg(not(feature = "operations"))]
pub(crate) type RecentLines = std::convert::Infallible;

/// Writes a line to stderr and to the ring.
#[derive(Clone)]
struct LineWriter {
    writer: BackgroundWriter,
    #[cfg_attr(not(feature = "operations"), allow(dead_code, reason = "it is used with it"))]
    recent: Option<RecentLines>,
}

impl std::io::Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        #[cfg(feature = "operations")]
        if let Some(recent) = &self.recent {
            recent.writer().write_all(line)?;
        }
        self.writer.write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The subscriber keeps a clone until the process ends, so a drop would not drain it.
        let _ = self.writer.drain(END_TIMEOUT);
    }
}

/// Parses a filter. A level without a target applies to all targets. A word that is not a level is
/// refused: it would be taken for a target, and a mistyped level would silence the log.
fn parse(filter: &str) -> Result<Targets> {
    let is_level = |part: &str| !part.is_empty() && part.parse::<LevelFilter>().is_ok();
    let is_part = |part: &str| part.contains('=') || is_level(part.trim());
    let targets = filter.parse().ok().filter(|_| filter.split(',').all(is_part));
    targets.map(quiet).ok_or_else(|| {
        let filter = marmota_model::text::excerpt(filter);
        let message = format!(
            "`{filter}` is not a log filter; write one such as \
                               `info,marmota::slow=off`"
        );
        Error::new(ErrorKind::Invalid, message)
    })
}

/// Raises the level of these crates to errors, unless the filter names them. Clients can make them
/// warn of TLS alerts and HTTP/2 floods, which the server already counts
/// (`marmota_http_handshakes_failed_total`).
fn quiet(mut targets: Targets) -> Targets {
    let is_usual = |level| level == LevelFilter::WARN || level == LevelFilter::INFO;
    if targets.default_level().is_some_and(is_usual) {
        for name in ["rustls", "h2"] {
            let is_named =
                targets.iter().any(|(target, _)| target.split("::").next() == Some(name));
            if !is_named {
                targets = targets.with_target(name, LevelFilter::ERROR);
            }
        }
    }
    targets
}

impl LogLevels for Log {
    fn filter(&self) -> String {
        self.filter.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_filter(&self, filter: &str) -> Result<()> {
        let targets = parse(filter)?;
        let mut now = self.filter.lock().unwrap_or_else(PoisonError::into_inner);
        self.targets
            .reload(targets)
            .map_err(|error| Error::new(ErrorKind::Bug, "the log was closed").with_source(error))?;
        // The maximum level of the crate `log` is not updated automatically.
        log::set_max_level(match LevelFilter::current() {
            LevelFilter::OFF => log::LevelFilter::Off,
            LevelFilter::ERROR => log::LevelFilter::Error,
            LevelFilter::WARN => log::LevelFilter::Warn,
            LevelFilter::INFO => log::LevelFilter::Info,
            LevelFilter::DEBUG => log::LevelFilter::Debug,
            _ => log::LevelFilter::Trace,
        });
        filter.clone_into(&mut now);
        Ok(())
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log({})", self.filter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_level_and_levels_of_targets() {
        for filter in ["warn", "info,marmota::slow=off", "off, a=debug,b::c=trace"] {
            assert!(parse(filter).is_ok(), "{filter}");
        }
        for filter in ["", "loudly", "info,a", "a=loudly", "info,,warn"] {
            assert!(parse(filter).is_err(), "{filter}");
        }
    }
}
