//! `migrate` in a program with migrations, which is this test started again.

use std::process::{Command, ExitCode};

use marmota::prelude::*;
use marmota::store::StoreBuilder;
use marmota::store::migration::Migration;

use crate::program::{Ended, Folder};

/// The number of migrations of the program, which runs only if this is set.
const COUNT: &str = "MARMOTA_TEST_MIGRATIONS";
/// The program's arguments, one per line.
const WORDS: &str = "MARMOTA_TEST_WORDS";

#[derive(Model)]
struct Person {
    id: i64,
    name: Option<String>,
    #[model(default = "")]
    last_name: String,
}

fn models(url: &str, count: usize) -> Result<StoreBuilder> {
    let migrations = [
        Migration::new(1, "first person").up(|transaction| {
            let person = Person { id: 0, name: Some("Marie Curie".into()), last_name: "".into() };
            transaction.insert(&person).run().map(drop)
        }),
        Migration::new(2, "last names")
            .up_sql(["UPDATE person SET last_name = substr(name, instr(name, ' ') + 1)"])
            .down_sql(["UPDATE person SET last_name = ''"]),
        Migration::new(3, "no names")
            .up_sql(["UPDATE person SET name = NULL WHERE name LIKE '%' || last_name"])
            .down_sql(["UPDATE person SET name = 'somebody called ' || last_name"]),
    ];
    let builder = marmota::open(url)?.model::<Person>();
    Ok(migrations.into_iter().take(count).fold(builder, StoreBuilder::migration))
}

#[test]
#[ignore = "a process that another test starts"]
fn is_the_program() {
    let variable = |name| std::env::var(name).expect("started by another test");
    let (count, words) = (variable(COUNT).parse().unwrap(), variable(WORDS));
    let program = marmota::command::Command::new(move |url| models(url, count));
    let code = program.run_with(std::iter::once("people").chain(words.lines()));
    let number = (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap();
    std::process::exit(number.into());
}

/// Runs a program with this number of migrations.
fn people(folder: &Folder, count: usize, words: &[&str]) -> Ended {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "migrations::is_the_program", "--nocapture"]);
    command.current_dir(folder.0.path()).env_remove("MARMOTA_KEY").env("MARMOTA_DB", "sqlite:a.db");
    let output = command.env(COUNT, count.to_string()).env(WORDS, words.join("\n")).output();
    let output = output.unwrap();
    Ended {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn person(folder: &Folder, count: usize) -> Person {
    let url = format!("sqlite:{}", folder.0.path().join("a.db").display());
    let store = models(&url, count).unwrap().open().unwrap();
    let person = store.get::<Person>(1).run().unwrap();
    store.close().unwrap();
    person
}

#[test]
fn migrate_goes_up_and_down_and_lists() {
    let folder = Folder::new();
    let said = people(&folder, 2, &["migrate", "--status"]).with(0);
    assert!(said.contains("migration 2 `last names`: pending\n"), "{said}");
    let said = people(&folder, 2, &["migrate", "--dry-run"]).with(3);
    assert!(said.contains("+ add table marmota_migration"), "{said}");
    assert!(said.contains("+ migration 1 `first person`\n+ migration 2 `last names`\n"), "{said}");
    assert!(!folder.0.path().join("a.db").exists(), "a dry run creates no file");

    let said = people(&folder, 2, &["migrate"]).with(0);
    assert!(said.contains("+ migration 2 `last names`\n"), "{said}");
    assert_eq!(person(&folder, 2).last_name, "Curie");
    people(&folder, 2, &["migrate", "--dry-run"]).with(0);
    let said = people(&folder, 3, &["migrate", "--dry-run"]).with(3);
    assert!(said.contains("+ migration 3 `no names`\n"), "{said}");

    people(&folder, 3, &["migrate"]).with(0);
    assert_eq!(person(&folder, 3).name, None);
    let said = people(&folder, 3, &["migrate", "--status"]).with(0);
    assert!(said.contains("migration 1 `first person`: done 2"), "{said}");
    assert!(said.contains("Z, cannot be undone\n"), "{said}");

    let said = people(&folder, 2, &["migrate"]).with(1);
    assert!(said.contains("newer program") && said.contains("`migrate --to 2`"), "{said}");
    let said = people(&folder, 2, &["migrate", "--status"]).with(0);
    assert!(said.contains("migration 3 `no names`: done"), "{said}");
    assert!(said.contains(", not in this program"), "{said}");

    let said = people(&folder, 3, &["migrate", "--to", "2"]).with(0);
    assert!(said.contains("- migration 3 `no names`\n"), "{said}");
    assert_eq!(person(&folder, 2).name.as_deref(), Some("somebody called Curie"));
    let said = people(&folder, 2, &["migrate", "--to", "0"]).with(1);
    assert!(said.contains("migration 1 `first person` cannot be undone"), "{said}");
    assert_eq!(person(&folder, 2).last_name, "Curie");
    let said = people(&folder, 2, &["migrate", "--to", "9"]).with(1);
    assert!(said.contains("no migration 9"), "{said}");
    people(&folder, 2, &["migrate", "--to", "1", "--dry-run"]).with(2);
}
