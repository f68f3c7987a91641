//! The program with users: the first visit, groups and their rights, keys, and statistics.

use crate::browser::{Driver, Look, run};
use crate::program::Program;

const PASSWORD: &str = "correct horse battery";

#[test]
fn an_administrator_sets_up_the_server_and_users_see_what_is_granted() {
    let program = Program::start(&["--auth", "--changes", "--diagnostics", "--slow-query-ms", "1"]);
    for page in ["/admin", "/docs", "/api"] {
        assert!(program.printed.lines().any(|line| line.ends_with(page)), "{}", program.printed);
    }
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        // The first visit asks for the token of the terminal.
        page.open(&program.address_with("/admin")).await;
        page.open(&format!("{}/admin", program.url)).await;
        page.shows("No user has a password yet").await;
        page.is_accessible("sign-in").await;
        page.press("Set the password of the first administrator").await;
        page.fill("Token", "mt_wrong").await;
        page.fill("New password", PASSWORD).await;
        page.press("Set password").await;
        page.wait("document.querySelector('form .error[role=alert]').textContent !== ''").await;
        page.is_accessible("set-password").await;
        // The address in the terminal has the token.
        page.open(&program.address_with("#/set-password")).await;
        page.fill("New password", "short").await;
        page.press("Set password").await;
        page.wait("document.querySelector('form').innerText.includes('password')").await;
        page.fill("New password", PASSWORD).await;
        page.press("Set password").await;
        page.shows("All tables").await;
        page.press("discovery").await;
        page.shows("7 rows").await;

        // A group, whose rules are checked.
        page.press("Groups").await;
        page.press("New group").await;
        page.fill("Name", "readers").await;
        page.press("Add grant").await;
        page.choose("Table", "person").await;
        page.fill("Only rows where", "year_of_birth > 'x'").await;
        page.press("Save").await;
        page.shows("year_of_birth").await;
        page.wait("document.querySelector('.grants [aria-invalid]')").await;
        page.is_accessible("group").await;
        page.fill("Only rows where", "year_of_birth > 1900").await;
        page.press("Save").await;
        page.shows("person: read where year_of_birth > 1900").await;
        page.press("readers").await;
        page.fill("All fields but these", "year_of_death").await;
        page.press("Save").await;
        page.shows("person: read except year_of_death where year_of_birth > 1900").await;
        page.is_accessible("groups").await;

        // A user of the group gets a link to set a password.
        page.press("Users").await;
        page.press("New user").await;
        page.fill("Name", "ann").await;
        page.check("readers").await;
        page.is_accessible("new-user").await;
        page.press("Create").await;
        page.shows("Password of ann").await;
        page.is_accessible("token").await;
        let link = page.run("return document.querySelector('dialog input').value").await;
        page.press("Close").await;
        page.shows("no password").await;
        page.is_accessible("users").await;

        let ann = driver.browser(Look::Dark).await;
        ann.open(link.as_str().unwrap()).await;
        ann.is_accessible("set-password-dark").await;
        ann.fill("New password", PASSWORD).await;
        ann.press("Set password").await;
        ann.shows("All tables").await;
        ann.hides("discovery").await;
        ann.hides("Users").await;
        ann.press("person").await;
        ann.shows("Chien-Shiung").await;
        ann.hides("Lovelace").await;
        ann.hides("year_of_death").await;
        ann.hides("New row").await;
        ann.hides("Delete selected").await;
        ann.shows("You may not change rows.").await;
        ann.is_accessible("grid-of-ann").await;

        // Rights that are taken away are gone at once.
        page.press("Groups").await;
        page.press("readers").await;
        page.press("Remove grant").await;
        page.press("Save").await;
        page.shows("none").await;
        ann.open("about:blank").await;
        ann.open(&format!("{}/admin", program.url)).await;
        ann.shows("There is no table that you may use.").await;
        ann.press("Sign out").await;
        ann.shows("Sign in to marmota").await;
        ann.fill("Name", "ann").await;
        ann.fill("Password", "wrong password").await;
        ann.press("Sign in").await;
        ann.wait("document.querySelector('form .error[role=alert]').textContent !== ''").await;
        ann.is_accessible("sign-in-dark").await;
        ann.close().await;

        // A key for programs.
        page.press("Account").await;
        page.fill("Name of the key", "backup").await;
        page.press("Create key").await;
        page.shows("New API key").await;
        let key = page.run("return document.querySelector('dialog input').value").await;
        assert!(key.as_str().unwrap().starts_with("mk_"), "{key}");
        page.press("Close").await;
        page.shows("backup").await;
        page.is_accessible("account").await;
        page.press("Revoke backup").await;
        page.press("Revoke").await;
        page.shows("You have no keys.").await;

        // Statistics, and the filter of the log.
        page.press("Statistics").await;
        page.shows("Operations").await;
        page.is_accessible("statistics").await;
        page.fill("Filter of the log", "info").await;
        page.press("Set").await;
        page.press("Pause").await;
        page.shows("Continue").await;

        // The documentation has the operations of the caller, who can try them.
        page.open(&format!("{}/docs", program.url)).await;
        page.shows("You are admin").await;
        page.close().await;
    });
}

/// Groups of an application are in its file, which is in force again after a start.
#[test]
fn groups_of_an_application_are_saved_in_its_file() {
    let program = Program::start_application();
    let file = || std::fs::read_to_string(program.folder.path().join("app.toml")).unwrap();
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&program.address_with("#/set-password")).await;
        page.fill("New password", PASSWORD).await;
        page.press("Set password").await;
        page.shows("All tables").await;
        page.press("Groups").await;
        page.press("New group").await;
        page.shows("It is saved in the application file.").await;
        page.fill("Name", "readers").await;
        page.press("Add grant").await;
        page.choose("Table", "note").await;
        page.fill("Only rows where", "nothing > 7").await;
        page.press("Save").await;
        page.wait("document.querySelector('.grants [aria-invalid]')").await;
        page.shows("nothing").await;
        assert!(!file().contains("readers"), "a wrong rule changes nothing: {}", file());
        page.fill("Only rows where", "done = false").await;
        page.press("Save").await;
        page.shows("note: read where done = false").await;
        let text = file();
        assert!(text.contains("readers") && text.contains("done = false"), "{text}");
        assert!(text.starts_with("# The tables of the application"), "comments stay: {text}");
        page.press("readers").await;
        page.is_accessible("group-of-file").await;
        page.fill("Only rows where", "done = true").await;
        page.press("Save").await;
        page.shows("note: read where done = true").await;
        assert!(file().contains("done = true") && !file().contains("done = false"), "{}", file());
        page.press("readers").await;
        page.press("Delete").await;
        page.press("Delete").await;
        page.shows("Deleted").await;
        assert!(!file().contains("readers"), "{}", file());

        // A group that a program made through the API stays in the database.
        let make =
            "return fetch('/api/auth/groups/robots', { method: 'PUT', body: '{\"grants\":[]}',
            headers: { 'Content-Type': 'application/json' } }).then(answer => answer.status)";
        assert_eq!(page.run(make).await, serde_json::json!(204));
        page.open("about:blank").await;
        page.open(&format!("{}/admin#/group/robots", program.url)).await;
        page.shows("It is saved in the database").await;
        page.press("Add grant").await;
        page.choose("Table", "note").await;
        page.press("Save").await;
        page.shows("note: read").await;
        assert!(!file().contains("robots"), "{}", file());
        page.close().await;
    });
}
