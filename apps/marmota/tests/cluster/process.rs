//! A process that is killed on drop.

use std::process::{Child, Command, Stdio};

pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_with(command.stdout(Stdio::null()))
    }

    /// Starts a process whose output is set.
    pub(crate) fn start_with(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn signal(&self, name: &str) {
        let process = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command to its end, which has to succeed.
pub(crate) fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// Returns a port that is free now.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
