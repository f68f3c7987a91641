//! The `marmota` program: a demo data service with its own SQLite file.
#![forbid(unsafe_code)]

mod bench;
mod demo;
mod prove;
mod stress;

use std::process::ExitCode;

use marmota::command::Command;

/// Allocates memory for the static program, because musl's allocator has one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    program().run()
}

fn program() -> Command {
    Command::new(demo::models)
        .about("Serves the tables of app.toml as REST, or a demonstration without that file")
        .version(env!("CARGO_PKG_VERSION"))
        .commit(option_env!("MARMOTA_COMMIT"))
        .seed(demo::seed)
        .application_files("app.toml", "marmota.toml")
        .greeting(greeting)
        .subcommand(bench::command(), bench::run)
        .subcommand(stress::command(), stress::run)
        .subcommand(prove::command(), prove::run)
}

fn greeting(url: &str) -> String {
    format!(
        "Marmota serves {url} (Ctrl-C ends it). Try:\n  \
         curl '{url}/api/person?order=year_of_birth&limit=3'\n  \
         curl {url}/api/person -d \
         '{{\"first_name\":\"Emmy\",\"last_name\":\"Noether\",\"year_of_birth\":1882}}'\n  \
         curl --get {url}/api/person \
         --data-urlencode \"filter=last_name ~ 'cur' and year_of_death > 1930\""
    )
}

#[cfg(test)]
mod tests {
    use marmota::command::clap;

    /// The subcommands without `--json`, and what they print instead.
    const WITHOUT_JSON: [(&str, &str); 7] = [
        ("serve", "a server; `--log-format json` has its log"),
        ("mcp", "the protocol, which is JSON"),
        ("completions", "a script for a shell"),
        ("man", "a manual page"),
        ("export", "rows in the format of `--format`"),
        ("schema export", "a file in the format of `--format`"),
        ("schema json-schema", "a JSON Schema"),
    ];

    /// Calls a function for each subcommand that has no further ones.
    fn for_each(command: &clap::Command, path: &str, found: &mut dyn FnMut(&str, &clap::Command)) {
        for one in command.get_subcommands() {
            let path = format!("{path} {}", one.get_name());
            match one.has_subcommands() {
                true => for_each(one, &path, found),
                false => found(path.trim_start(), one),
            }
        }
    }

    #[test]
    fn each_subcommand_prints_json_or_has_a_reason() {
        let mut without = Vec::new();
        let mut count = 0;
        for_each(&super::program().parser("marmota"), "", &mut |path, command| {
            count += 1;
            match command.get_arguments().find(|argument| argument.get_long() == Some("json")) {
                None => without.push(path.to_owned()),
                Some(json) => {
                    assert!(!json.get_action().takes_values(), "{path}: --json is a flag");
                }
            }
        });
        assert!(count > 40, "{count} subcommands");
        without.sort();
        let mut expected = WITHOUT_JSON.map(|(path, _)| path);
        expected.sort_unstable();
        assert_eq!(without, expected, "a subcommand flattens `JsonOutput`, or is in the list");
    }
}
