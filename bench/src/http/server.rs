//! A server under test as a process. It is started on a free port in a temporary folder, and is
//! ready when it accepts connections.

use super::roster::ServerSpec;
use super::usage::ProcessUsage;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout from the start of a server until it accepts connections.
const START_TIME_MAX: Duration = Duration::from_secs(20);
/// The maximum time that a server may take to stop.
const STOP_TIME_MAX: Duration = Duration::from_secs(3);
const LOG_FILE: &str = "server.log";
/// Number of bytes of a failed server's output that are shown.
const LOG_BYTES_SHOWN: usize = 2000;

/// A running server; killed when dropped.
pub(crate) struct Server {
    process: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(spec: &ServerSpec, binary: &Path) -> Result<Server> {
        let folder = tempfile::tempdir().context("making a folder for the server")?;
        let port = free_port()?;
        let log = File::create(folder.path().join(LOG_FILE))?;
        let process = Command::new(binary)
            .args(spec.arguments.iter().map(|a| a.replace("{port}", &port.to_string())))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let mut server = Server { process, port, folder };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn usage(&mut self) -> Result<ProcessUsage> {
        ProcessUsage::of(self.process.id())
    }

    /// Stops the server with a signal, so that it can shut down, and kills it if that takes too long.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        // If it has already exited, there is no process to signal.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let deadline = Instant::now() + STOP_TIME_MAX;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_TIME_MAX;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if let Some(status) = self.process.try_wait()? {
                bail!("it ended at once, {status}; its output:\n{}", self.log());
            }
            if Instant::now() > deadline {
                bail!(
                    "it does not listen on port {} after {START_TIME_MAX:?}; its output:\n{}",
                    self.port,
                    self.log()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn log(&self) -> String {
        let log = fs::read(self.folder.path().join(LOG_FILE)).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(LOG_BYTES_SHOWN)..];
        String::from_utf8_lossy(tail).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has already exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a port that is free now. Another process could take it before the server does; the server
/// then reports an error and the run ends.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port")?;
    Ok(listener.local_addr()?.port())
}
