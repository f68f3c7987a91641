//! Three programs that serve the same database.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{Process, free_port};

const START_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Programs {
    programs: [Program; 3],
}

struct Program {
    port: u16,
    /// The URL of its database.
    url: String,
    process: Process,
}

impl Program {
    fn start(port: u16, url: &str) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_marmota"));
        program.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--db", url]);
        program.args(["--changes", "--idempotency", "--no-admin"]);
        program.args(["--cache-bytes-max", "8000000", "--trusted-proxies", "127.0.0.1"]);
        let process = Process::start(&mut program);
        let program = Self { port, url: url.to_owned(), process };
        program.wait();
        program
    }

    /// Waits until it answers.
    fn wait(&self) {
        let url = format!("http://127.0.0.1:{}/api/person?limit=1", self.port);
        let begun = Instant::now();
        while let Err(error) = ureq::get(&url).call() {
            assert!(begun.elapsed() < START_MAX, "{url}: {error}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Programs {
    /// Starts the programs, each with the URL of its database.
    pub(crate) fn start(urls: [&str; 3]) -> Self {
        Self { programs: urls.map(|url| Program::start(free_port(), url)) }
    }

    pub(crate) fn ports(&self) -> [u16; 3] {
        [0, 1, 2].map(|at| self.programs[at].port)
    }

    pub(crate) fn urls(&self) -> [String; 3] {
        self.ports().map(|port| format!("http://127.0.0.1:{port}"))
    }

    pub(crate) fn kill(&mut self, number: usize) {
        let program = &mut self.programs[number % 3];
        program.process.signal("-KILL");
        program.process.0.wait().unwrap();
        *program = Program::start(program.port, &program.url);
    }

    pub(crate) fn pause(&self, number: usize, time: Duration) {
        let program = &self.programs[number % 3];
        program.process.signal("-STOP");
        thread::sleep(time);
        program.process.signal("-CONT");
    }

    /// Stops each program in order, and starts it again before the next one is stopped.
    pub(crate) fn restart_each(&mut self) {
        for program in &mut self.programs {
            program.process.signal("-TERM");
            assert!(program.process.0.wait().unwrap().success());
            *program = Program::start(program.port, &program.url);
        }
    }
}
