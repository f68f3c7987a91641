//! The options of `serve` for the threads of the server.

use std::thread::available_parallelism;

use clap::Args;
use marmota_http::{Backend, BatchScheduling, Server};

use crate::command::serve::option_values::positive;

/// The options of threads.
#[derive(Args)]
#[command(next_help_heading = "Threads")]
pub(crate) struct ThreadOptions {
    /// Number of threads, at least 1; if not given, one for each core that the process may use
    #[arg(long, value_parser = positive::<usize>)]
    threads: Option<usize>,
    /// Number of listeners that share each port, at least 1; --threads must be a multiple of it. If
    /// not given, one for each thread
    #[arg(long, value_name = "COUNT", value_parser = positive::<usize>)]
    listeners: Option<usize>,
    /// Binds each thread to a core, for machines that serve nothing else
    #[arg(long)]
    pin_threads: bool,
    /// Uses the scheduling policy SCHED_BATCH for the threads: auto (if the database server is on
    /// this machine), on or off; see the guide, 22-postgresql.md
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    batch_scheduling: BatchScheduling,
    /// How the threads wait for sockets: auto (io_uring if the kernel permits it, otherwise epoll),
    /// ring, epoll or portable
    #[arg(long, value_name = "BACKEND", default_value = "auto",
          value_parser = ["auto", "ring", "epoll", "portable"])]
    http_backend: String,
}

impl ThreadOptions {
    /// Returns the server with these options.
    ///
    /// # Errors
    /// Those of [`ThreadOptions::check`].
    pub(crate) fn apply_to(&self, server: Server) -> Result<Server, String> {
        self.check()?;
        let server = server.pin(self.pin_threads).batch_scheduling(self.batch_scheduling);
        let server = match (self.threads, self.listeners) {
            (None, None) => server,
            (threads, listeners) => {
                let cores = || available_parallelism().map_or(1, usize::from);
                let threads = threads.unwrap_or_else(cores);
                let listeners = listeners.unwrap_or(threads);
                server.listeners(listeners).threads_per_listener(threads.div_ceil(listeners))
            }
        };
        Ok(match &*self.http_backend {
            "ring" => server.backend(Backend::Ring),
            "epoll" => server.backend(Backend::Epoll),
            "portable" => server.backend(Backend::Portable),
            _ => server,
        })
    }

    /// Checks that each listener has the same number of threads.
    ///
    /// # Errors
    /// If it has not.
    pub(crate) fn check(&self) -> Result<(), String> {
        match (self.threads, self.listeners) {
            (Some(threads), Some(listeners)) if threads % listeners != 0 => Err(format!(
                "`threads` ({threads}) must be a multiple of `listeners` ({listeners})"
            )),
            _ => Ok(()),
        }
    }
}
