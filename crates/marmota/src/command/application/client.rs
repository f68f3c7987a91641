//! `client`: generates a typed client of the REST API from the tables.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use clap::Args;
use marmota_client::{ClientLanguage, generate};
use marmota_store::rights::is_internal;

use crate::command::{Command, Done, report};

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
        let store = command.builder("memory:")?.open()?;
        let tables = store.registry().tables().iter().filter(|table| !is_internal(table));
        let tables: Vec<_> = tables.cloned().collect();
        let files = generate(language, &name, &tables)?;
        for file in &files {
            write(&self.out.join(&file.path), &file.text)?;
        }
        let (count, folder) = (files.len(), self.out.display());
        report(format_args!("Wrote {count} files to {folder}"))?;
        Ok(ExitCode::SUCCESS)
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
