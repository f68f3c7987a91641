//! The option of `serve` for the access log: a line for each request, in a file that is opened again at
//! a reload, so that `logrotate` can move it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use marmota_http::AccessLog;
use marmota_model::{Error, ErrorKind, Result};

use crate::operations::RecentLog;

/// The options of the access log.
#[derive(Args)]
#[command(next_help_heading = "Access log")]
pub(super) struct AccessLogOptions {
    /// Appends a line for each request to this file; - for standard output. SIGHUP opens the file
    /// again. Default: no access log
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// The form of the lines: combined (as Apache and nginx) or json
    #[arg(long, value_name = "FORMAT", default_value = "combined",
          value_parser = ["combined", "json"])]
    access_log_format: String,
}

/// A request to open the file of the access log again.
#[derive(Clone, Default)]
pub(super) struct Reopen(Arc<AtomicBool>);

impl Reopen {
    /// Opens the file again before the next line.
    pub(super) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl AccessLogOptions {
    /// Opens the access log, if there is one. With `recent`, its lines are kept there too.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be opened.
    pub(super) fn open(
        &self,
        reopen: &Reopen,
        recent: Option<&RecentLog>,
    ) -> Result<Option<AccessLog>> {
        let failed = |error| {
            let message = "the thread of the access log cannot be started";
            Error::new(ErrorKind::Io, message).with_source(error)
        };
        let Some(path) = &self.access_log else {
            let of_recent = recent.map(|recent| AccessLog::json(recent.access_sink()));
            return of_recent.transpose().map_err(failed);
        };
        let sink: Box<dyn Write + Send> = match path.as_os_str() == "-" {
            true => Box::new(io::stdout()),
            false => Box::new(ReopenedFile {
                file: append(path).map_err(|error| {
                    let message =
                        format!("cannot write the access log {}: {error}", path.display());
                    Error::new(ErrorKind::Io, message)
                })?,
                path: path.clone(),
                reopen: reopen.clone(),
            }),
        };
        let log = match &*self.access_log_format {
            "json" => AccessLog::json(sink),
            _ => AccessLog::combined(sink),
        };
        let log = match recent {
            Some(recent) => log.and_then(|log| log.and_json(recent.access_sink())),
            None => log,
        };
        log.map(Some).map_err(failed)
    }
}

/// A file that is opened again on request.
struct ReopenedFile {
    path: PathBuf,
    file: File,
    reopen: Reopen,
}

impl Write for ReopenedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.reopen.0.swap(false, Ordering::Relaxed) {
            // Without the new file, the old one is better than none.
            match append(&self.path) {
                Ok(file) => self.file = file,
                Err(error) => {
                    let path = self.path.display();
                    log::error!(target: "marmota", "cannot open the access log {path}: {error}");
                }
            }
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}
