//! SQL in the administration: a statement, its rows, an error, and earlier statements.

use crate::browser::{Driver, Look, run};
use crate::program::Program;

#[test]
fn an_administrator_reads_by_sql() {
    let program = Program::start_application();
    let driver = Driver::start();
    run(async {
        for look in [Look::Light, Look::Dark, Look::Phone] {
            let page = driver.browser(look).await;
            let is_first = matches!(look, Look::Light);
            if is_first {
                page.open(&program.address_with("#/set-password")).await;
                page.fill("New password", "correct horse battery").await;
                page.press("Set password").await;
            } else {
                page.open(&format!("{}/admin", program.url)).await;
                page.fill("Name", "admin").await;
                page.fill("Password", "correct horse battery").await;
                page.press("Sign in").await;
            }
            page.shows("note").await;
            page.open(&format!("{}/admin#/sql", program.url)).await;
            page.shows("It can only read.").await;
            page.fill("Statement", "SELECT 7 AS number, ? AS word, NULL AS empty").await;
            page.fill("Values", "[\"=word\"]").await;
            page.press("Execute").await;
            page.shows("1 row").await;
            page.shows("=word").await;
            let name = match look {
                Look::Light => "sql",
                Look::Dark => "sql-dark",
                Look::Phone => "sql-phone",
            };
            page.is_accessible(name).await;
            if is_first {
                page.fill("Statement", "DELETE FROM note").await;
                page.fill("Values", "[]").await;
                page.press("Execute").await;
                page.wait("document.querySelector('form .error[role=alert]').textContent !== ''")
                    .await;
                page.is_accessible("sql-error").await;
                page.shows("Earlier statements").await;
            }
            page.loads_nothing_foreign().await;
            page.close().await;
        }
    });
}

#[test]
fn an_administrator_changes_rows_by_sql_where_the_server_lets_them() {
    let program = Program::start_application_with(&["--sql-write"]);
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&program.address_with("#/set-password")).await;
        page.fill("New password", "correct horse battery").await;
        page.press("Set password").await;
        page.shows("note").await;
        page.open(&format!("{}/admin#/sql", program.url)).await;
        let sql = "INSERT INTO note (text, done, created, version) VALUES ('milk', 0, 0, 1)";
        page.fill("Statement", sql).await;
        page.press("Execute").await;
        page.wait("document.querySelector('form .error[role=alert]').textContent !== ''").await;
        page.check("Change rows").await;
        page.press("Execute").await;
        page.shows("1 row changed").await;
        page.is_accessible("sql-write").await;
        // The choice is for one statement.
        page.press("Execute").await;
        page.wait("document.querySelector('form .error[role=alert]').textContent !== ''").await;
        page.open("about:blank").await;
        page.open(&format!("{}/admin#/table/note", program.url)).await;
        page.shows("milk").await;
        page.close().await;
    });
}
