//! `schema adopt`: a file of tables for an existing database.
//!
//! ```text
//! $ marmota schema adopt sqlite:chinook.db --out app.toml
//! PlaylistTrack is left out: its primary key has several columns (PlaylistId, TrackId): …
//! Wrote app.toml: 10 tables. Next: marmota serve --app app.toml --db sqlite:chinook.db
//! ```

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use marmota_app::{AdoptedDatabase, AppFormat};
use marmota_model::text::counted;
use serde_json::{Value, json};

use crate::command::{Done, JsonOutput, complain, own_name};

/// Makes the file of a database, and reports what it does not state.
pub(super) fn run(url: &str, schema: Option<&str>, out: Option<&Path>, output: JsonOutput) -> Done {
    let url = with_schema(url, schema)?;
    if !crate::restore::is_there(&url) {
        return Err(format!("there is no database at {url}").into());
    }
    let Some(tables) = crate::open(&url)?.existing_structure()? else {
        let message = "only SQLite and PostgreSQL databases can be adopted: name one, as in \
                       sqlite:shop.db or postgres://ada@localhost/shop";
        return Err(message.into());
    };
    let adopted = AdoptedDatabase::of(&tables)?;
    if !output.is_json() {
        adopted.remarks.iter().for_each(complain);
    }
    let count = adopted.app.schemas().len();
    if count == 0 {
        return Err("the database has no table that an application file can have".into());
    }
    let text = match out.map_or(AppFormat::Toml, AppFormat::of_path) {
        AppFormat::Toml => adopted.to_toml(),
        AppFormat::Json => adopted.app.to_json() + "\n",
    };
    let json = |file: Option<&Path>| {
        let app: Option<Value> = match file {
            None => serde_json::from_str(&adopted.app.to_json()).ok(),
            Some(_) => None,
        };
        let remarks: Vec<String> = adopted.remarks.iter().map(ToString::to_string).collect();
        json!({ "file": file, "tables": count, "remarks": remarks, "app": app })
    };
    let Some(path) = out else {
        output.report(|| json(None), || text.trim_end().to_owned())?;
        return Ok(ExitCode::SUCCESS);
    };
    let name = path.display();
    std::fs::File::create_new(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("cannot write {name}: {error}"))?;
    output.notice(
        || json(Some(path)),
        || {
            let tables = counted(count as u64, "table");
            let program = own_name();
            format!("Wrote {name}: {tables}. Next: {program} serve --app {name} --db {url}")
        },
    );
    Ok(ExitCode::SUCCESS)
}

/// Returns the URL with the schema as its option.
fn with_schema(url: &str, schema: Option<&str>) -> Result<String, String> {
    let Some(schema) = schema else { return Ok(url.to_owned()) };
    if !url.starts_with("postgres") {
        return Err(format!("--schema {schema}: only PostgreSQL databases have schemas"));
    }
    let sign = if url.contains('?') { '&' } else { '?' };
    Ok(format!("{url}{sign}schema={schema}"))
}
