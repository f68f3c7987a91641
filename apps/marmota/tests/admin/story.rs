//! The first minutes with the program, as one story: from nothing to the first row, then a rule, a user, a
//! file, a slow query, a backup, and the files for a server. The time and the number of actions up to the
//! first row are printed.

use std::process::Command;
use std::time::Instant;

use crate::browser::{Browser, Driver, Look, run};
use crate::program::Program;

const PASSWORD: &str = "correct horse battery";
/// What a start needs for the later parts of the story.
const OPTIONS: [&str; 2] = ["--slow-query-ms", "0"];

#[test]
fn from_an_empty_folder_to_the_first_row_and_on_to_a_server() {
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        let begun = Instant::now();
        // In the terminal: `marmota new`, `marmota serve`.
        let program = Program::start_application_with(&OPTIONS);
        page.acted();
        page.acted();
        first_row(&page, &program).await;
        let text = std::fs::read_to_string(program.folder.path().join("app.toml")).unwrap();
        assert!(text.contains("price = \"currency\""), "{text}");
        println!(
            "from nothing to the first row: {:.1} s, {} actions",
            begun.elapsed().as_secs_f64(),
            page.actions.get()
        );
        rule_and_user(&page, &program).await;
        file(&page, &program).await;
        slow_query_and_backup(&page, &program).await;
        page.loads_nothing_foreign().await;
        page.close().await;
        let mut deploy = Command::new(env!("CARGO_BIN_EXE_marmota"));
        deploy.args(["deploy-files", "--out", "deploy"]).current_dir(program.folder.path());
        assert!(deploy.output().unwrap().status.success());
        for name in ["marmota.service", "Dockerfile", "compose.yaml"] {
            let path = program.folder.path().join("deploy").join(name);
            assert!(path.is_file(), "{}", path.display());
        }
    });
}

/// Sets the password, adds a table with three fields and a row.
async fn first_row(page: &Browser, program: &Program) {
    page.open(&program.address_with("#/set-password")).await;
    page.fill("New password", PASSWORD).await;
    page.press("Set password").await;
    page.press("Tables and fields").await;
    page.press("New table").await;
    page.fill("Name of the table", "product").await;
    add_field(page, "price", "currency").await;
    add_field(page, "picture", "file").await;
    page.press("Show changes").await;
    page.shows("add table product").await;
    page.press("Apply").await;
    page.shows("Applied").await;
    page.press("product").await;
    page.press("New row").await;
    page.fill("name", "Chair").await;
    page.fill("price", "12.50").await;
    add_picture(page, program, "picture.txt").await;
    page.press("Create").await;
    page.shows("product 1").await;
    page.screenshot("story-first-row").await;
}

/// Adds a field of a kind to the table.
async fn add_field(page: &Browser, name: &str, kind: &str) {
    page.press("Add field").await;
    page.keys(name).await;
    let choose = format!(
        "const kind = [...document.querySelectorAll('fieldset.editor')].at(-1).querySelector('select')
         kind.value = '{kind}'
         kind.dispatchEvent(new Event('change'))"
    );
    page.run(&choose).await;
    page.acted();
}

/// Lets a group read cheap products, and looks at them as a user of the group.
async fn rule_and_user(page: &Browser, program: &Program) {
    page.press("product").await;
    page.press("New row").await;
    page.fill("name", "Sofa").await;
    page.fill("price", "900").await;
    add_picture(page, program, "picture.txt").await;
    page.press("Create").await;
    page.shows("product 2").await;
    page.press("Groups").await;
    page.press("New group").await;
    page.fill("Name", "guests").await;
    page.press("Add grant").await;
    page.choose("Table", "product").await;
    page.fill("Only rows where", "price < 100").await;
    page.press("Save").await;
    page.shows("product: read where price < 100").await;
    let text = std::fs::read_to_string(program.folder.path().join("app.toml")).unwrap();
    assert!(text.contains("price < 100"), "groups are in the file: {text}");
    page.press("Users").await;
    page.press("New user").await;
    page.fill("Name", "ann").await;
    page.check("guests").await;
    page.press("Create").await;
    page.shows("Password of ann").await;
    page.press("Close").await;
    page.press("Try as a user").await;
    page.choose("User", "ann").await;
    page.press("Show").await;
    page.shows("Rights of ann").await;
    page.choose("Table", "product").await;
    page.press("Show").await;
    page.shows("Chair").await;
    page.hides("Sofa").await;
    page.screenshot("story-try-as").await;
}

/// Chooses a file of nine bytes for the field `picture`.
async fn add_picture(page: &Browser, program: &Program, name: &str) {
    let path = program.folder.path().join(name);
    std::fs::write(&path, "four legs").unwrap();
    page.add("picture", path.to_str().unwrap()).await;
}

/// Replaces the file of the first row.
async fn file(page: &Browser, program: &Program) {
    page.open("about:blank").await;
    page.open(&format!("{}/admin#/row/product/1", program.url)).await;
    add_picture(page, program, "notes.txt").await;
    page.press("Save").await;
    page.shows("notes.txt (text/plain, 9 B)").await;
}

/// Finds a slow query; sets a schedule of backups, and makes one.
async fn slow_query_and_backup(page: &Browser, program: &Program) {
    page.press("Log").await;
    page.press("Refresh slow calls").await;
    page.shows("list of product").await;
    page.press("Backups").await;
    page.shows("No schedule.").await;
    page.press("Schedule").await;
    page.choose("Backups", "Each night at 3:30 UTC").await;
    page.fill("Backups to keep", "14").await;
    page.is_accessible("backup-schedule").await;
    page.press("Save").await;
    page.shows("30 3 * * *").await;
    page.shows("The newest 14 are kept.").await;
    page.press("Make a backup").await;
    page.shows("restore --db").await;
    let backups = std::fs::read_dir(program.folder.path().join("backups")).unwrap();
    assert!(backups.count() > 0);
}
