//! `deploy-files`: writes files for the deployment of the program: a unit of systemd, a backup every
//! night, a container, and proxies.
//!
//! ```text
//! $ people deploy-files --out deploy
//! deploy/people.service
//! deploy/Dockerfile
//! …
//! ```
//!
//! The texts are in `deploy/`. `@NAME@` stands for the program's name.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::command::{Command, Done, JsonOutput, own_name};

/// The options of the unit for a program without a file of settings.
const OPTIONS: &str =
    "--auth --listen unix:/run/@NAME@/http.sock --socket-mode 660 --trusted-proxies unix";

/// The files, with `NAME` for the program's name.
const FILES: [(&str, &str); 7] = [
    ("NAME.service", include_str!("deploy/unit.service")),
    ("NAME-backup.service", include_str!("deploy/backup.service")),
    ("NAME-backup.timer", include_str!("deploy/backup.timer")),
    ("Dockerfile", include_str!("deploy/Dockerfile")),
    ("compose.yaml", include_str!("deploy/compose.yaml")),
    ("nginx.conf", include_str!("deploy/nginx.conf")),
    ("Caddyfile", include_str!("deploy/Caddyfile")),
];

/// Writes files for the deployment: systemd, containers, proxies
///
/// The unit waits until the server is ready, restarts it if a thread is blocked, and runs it without
/// privileges. Read the files before you install them: each begins with where it belongs.
#[derive(Args)]
pub(in crate::command) struct DeployFiles {
    /// The folder; it is made if it is missing. Existing files are not replaced
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    output: JsonOutput,
}

impl DeployFiles {
    /// Writes the files, and prints their paths.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        let name = own_name();
        fs::create_dir_all(&self.out)
            .map_err(|error| format!("cannot make {}: {error}", self.out.display()))?;
        let mut files = FILES.to_vec();
        let mut options = OPTIONS.to_owned();
        #[cfg(feature = "app")]
        if command.files.has_settings() {
            files.push(("marmota.toml", include_str!("deploy/settings.toml")));
            options = "--config /etc/@NAME@/marmota.toml".to_owned();
        }
        let _ = command;
        let files = files.into_iter().map(|(file, text)| {
            let text = text.replace("@OPTIONS@", &options).replace("@NAME@", &name);
            (self.out.join(file.replace("NAME", &name)), text)
        });
        let files: Vec<_> = files.collect();
        if let Some((path, _)) = files.iter().find(|(path, _)| path.exists()) {
            let path = path.display();
            return Err(format!("{path} exists: name another folder, or remove the file").into());
        }
        for (path, text) in &files {
            let write =
                fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
            write.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        let paths = || files.iter().map(|(path, _)| path.display().to_string());
        self.output.report(
            || json!({ "files": paths().collect::<Vec<_>>() }),
            || paths().collect::<Vec<_>>().join("\n"),
        )?;
        Ok(ExitCode::SUCCESS)
    }
}
