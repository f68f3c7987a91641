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
