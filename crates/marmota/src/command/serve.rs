//! `serve`: the program's models over HTTP, until a signal ends it.

use std::process::ExitCode;

use clap::Args;
use marmota_http::Server;

use super::{Command, Database, Done};

/// Serves the models over HTTP; what runs if no subcommand is named
#[derive(Args)]
pub(super) struct Serve {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    database: Database,
    /// Threads; one for each core it may use, if not given
    #[arg(long)]
    threads: Option<usize>,
}

impl Serve {
    pub(super) fn run(&self, command: &Command) -> Done {
        let store = command.builder(command.url(&self.database))?.open()?;
        (command.seed)(&store)?;
        let listen = self.listen.as_deref().unwrap_or(command.listen);
        let mut server = Server::bind(listen)?;
        if let Some(threads) = self.threads {
            server = server.threads(threads);
        }
        println!("{}", (command.greeting)(server.local_addr()));
        server.run((command.routes)(&store))?;
        store.close()?;
        println!("Closed cleanly.");
        Ok(ExitCode::SUCCESS)
    }
}
