//! Subcommands, and invalid arguments.

use crate::program::Folder;

#[test]
fn unknown_arguments_are_refused_with_the_usage() {
    let folder = Folder::new();
    for words in [
        &["mirgate"][..],
        &["--dp", "memory:"],
        &["migrate", "--now"],
        &["--db", "memory:", "migrate"],
        &["serve", "--threads", "many"],
    ] {
        let said = folder.run(words).with(2);
        assert!(said.contains("--help"), "{said}");
    }
    assert_eq!(std::fs::read_dir(folder.0.path()).unwrap().count(), 0);
}

#[test]
fn help_lists_the_subcommands() {
    let said = Folder::new().run(&["--help"]).with(0);
    for word in ["serve", "migrate", "backup", "move", "restore", "--listen", "--db"] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn migrate_makes_the_database() {
    let folder = Folder::new();
    let said = folder.run(&["migrate", "--dry-run", "--db", "sqlite:a.db"]).with(3);
    assert!(said.contains("+ add table person\n    CREATE TABLE \"person\""), "{said}");
    assert!(!folder.0.path().join("a.db").exists(), "a dry run creates no file");
    let said = folder.run(&["migrate", "--db", "sqlite:a.db"]).with(0);
    assert!(said.contains("+ add table person"), "{said}");
    assert!(folder.0.path().join("a.db").is_file());
    let said = folder.run(&["migrate", "--dry-run", "--db", "sqlite:a.db"]).with(0);
    assert_eq!(said, "The database matches the models.\n");
    let said = folder.run(&["migrate", "--drop", "person.nose", "--db", "sqlite:a.db"]).with(1);
    assert!(said.contains("`person.nose` is not a table or column"), "{said}");
    let said = folder.run(&["migrate", "--db", "oracle:a"]).with(1);
    assert!(said.contains("marmota: ") && said.contains("oracle:a"), "{said}");
}
