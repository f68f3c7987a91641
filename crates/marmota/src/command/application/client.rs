//! `client`: generates a typed client of the REST API from the tables.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use clap::Args;
use marmota_client::{ClientLanguage, DescribedTables, generate};
use marmota_model::text::counted;
use marmota_store::rights::is_internal;
use serde_json::json;

use crate::command::server_api::ServerApi;
use crate::command::{Command, Done, JsonOutput};

/// Generates a typed client of the API in TypeScript or Python
///
/// The client is a package without dependencies. Its types are those of the tables in the file, or of
/// the program's models. Generate it again after each change of the tables.
#[derive(Args)]
pub(in crate::command) struct Client {
    /// The language: ts (JavaScript modules with types for TypeScript) or python
    #[arg(value_parser = ["ts", "python"])]
    language: String,
    /// The folder of the package, which is created. Files of an earlier run are overwritten
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The name of the application, from which the package and its class are named. Default: the name
    /// of the current folder
    #[arg(long)]
    name: Option<String>,
    /// The URL of a running server, whose tables are read; a path, if the API is not at `/api`. Default:
    /// the tables of the file or the program
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// An API key or a session token for --url. The client has what its user may read and write
    #[arg(long, value_name = "TOKEN", env = "MARMOTA_API_KEY", hide_env_values = true)]
    token: Option<String>,
    #[command(flatten)]
    output: JsonOutput,
}

impl Client {
    /// Executes the command. The tables come from a store in memory, so no database is opened.
    pub(in crate::command) fn run(&self, command: &Command) -> Done {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => current_folder()?,
        };
        let language = match &*self.language {
            "ts" => ClientLanguage::TypeScript,
            _ => ClientLanguage::Python,
        };
        let files = match &self.url {
            Some(url) => {
                let document = description(url, self.token.as_deref())?;
                generate(language, &name, DescribedTables::parse(&document)?.tables())?
            }
            None => {
                let store = command.builder("memory:")?.models_alone().open()?;
                let tables = store.registry().tables().iter();
                let tables: Vec<_> = tables.filter(|table| !is_internal(table)).cloned().collect();
                generate(language, &name, &tables)?
            }
        };
        for file in &files {
            write(&self.out.join(&file.path), &file.text)?;
        }
        let (count, folder) = (files.len(), self.out.display());
        self.output.report(
            || {
                let files: Vec<_> = files.iter().map(|file| &file.path).collect();
                json!({ "folder": self.out, "files": files })
            },
            || format!("Wrote {} to {folder}", counted(count as u64, "file")),
        )?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads the description of the tables of a running server.
fn description(url: &str, token: Option<&str>) -> Result<String, String> {
    let api = ServerApi::new(url, token)?;
    let answer = api.request("GET", "", None)?;
    match answer.status {
        200 => Ok(answer.body),
        _ => Err(api.refusal(&answer)),
    }
}

fn current_folder() -> Result<String, String> {
    let folder = env::current_dir().ok();
    let name = folder.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        "the current folder has no name: name the application with --name".to_owned()
    })
}

/// Writes a file whose content is different, so that tools that watch the folder do less.
fn write(path: &Path, text: &str) -> Result<(), String> {
    if fs::read(path).is_ok_and(|stored| stored == text.as_bytes()) {
        return Ok(());
    }
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        fs::write(path, text)
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
}
