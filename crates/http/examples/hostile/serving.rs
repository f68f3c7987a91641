//! The server's process, as its clients and `/proc` see it, and clients that do nothing wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::{GET, Outcome};

/// Connections that give the normal load.
const NORMAL: usize = 16;

/// The server's process.
pub(crate) struct Serving {
    child: Child,
    address: SocketAddr,
}

impl Serving {
    pub(crate) fn start() -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(Self { child, address: line.trim().parse()? })
    }

    pub(crate) fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(stream)
    }

    /// Resident KiB, open files, threads.
    pub(crate) fn usage(&self) -> Outcome<(u64, usize, u64)> {
        let process = format!("/proc/{}", self.child.id());
        let status = std::fs::read_to_string(format!("{process}/status"))?;
        let number = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        let files = std::fs::read_dir(format!("{process}/fd"))?.count();
        Ok((number("VmRSS:"), files, number("Threads:")))
    }

    pub(crate) fn tell(&self, when: &str) -> Outcome<()> {
        let (kib, files, threads) = self.usage()?;
        println!("{when}: {kib} KiB, {files} files, {threads} threads");
        Ok(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests a second of clients that do nothing wrong.
pub(crate) fn normal_rate(server: &Serving, time: Duration) -> Outcome<f64> {
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..NORMAL {
            scope.spawn(|| {
                let Ok(mut stream) = server.connect() else { return };
                let mut answer = [0; 4096];
                while !stop.load(Ordering::Relaxed) {
                    if stream.write_all(GET).is_err()
                        || !matches!(stream.read(&mut answer), Ok(1..))
                    {
                        return;
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    Ok(count.load(Ordering::Relaxed) as f64 / time.as_secs_f64())
}
