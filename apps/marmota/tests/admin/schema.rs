//! Tables and fields of an application, changed by an administrator while the program serves.

use crate::browser::{Driver, Look, run};
use crate::program::Program;

const PASSWORD: &str = "correct horse battery";

#[test]
fn an_administrator_adds_a_table_and_changes_it() {
    let program = Program::start_application();
    let file = program.folder.path().join("app.toml");
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&program.address_with("#/set-password")).await;
        page.fill("New password", PASSWORD).await;
        page.press("Set password").await;
        page.shows("All tables").await;

        page.press("Tables and fields").await;
        page.shows("note").await;
        page.is_accessible("schema").await;
        page.press("New table").await;
        page.fill("Name of the table", "product").await;
        page.choose("Who may use it", "Every user may read").await;
        page.press("Add field").await;
        page.keys("price").await;
        page.run("[...document.querySelectorAll('fieldset.editor')].at(-1).id = 'price'").await;
        page.run(
            "const kind = document.querySelector('#price select'); kind.value = 'currency'
             kind.dispatchEvent(new Event('change'))",
        )
        .await;
        page.is_accessible("schema-table").await;
        page.press("Show changes").await;
        page.shows("add table product").await;
        page.is_accessible("schema-plan").await;
        page.press("Apply").await;
        page.shows("Applied").await;
        page.shows("id: integer, name: text, price: currency").await;
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("# The tables of the application"), "comments stay: {text}");
        assert!(text.contains("price = \"currency\"") && text.contains("table = \"product\""));

        // The new table has rows like any other.
        page.open("about:blank").await;
        page.open(&format!("{}/admin#/new/product", program.url)).await;
        page.fill("name", "Chair").await;
        page.fill("price", "12.50").await;
        page.press("Create").await;
        page.shows("Chair").await;

        // A change that loses values says so, and needs a permission.
        page.open("about:blank").await;
        page.open(&format!("{}/admin#/schema-table/product", program.url)).await;
        page.fill("Name of the table", "article").await;
        page.press("Remove price").await;
        page.press("Show changes").await;
        page.shows("drop column").await;
        page.is_accessible("schema-loss").await;
        page.press("Cancel").await;

        // Someone else has changed the file meanwhile.
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("max = 1000", "max = 500")).unwrap();
        page.press("Show changes").await;
        page.shows("app.toml was changed on the disk, after `admin` had read it").await;
        page.open("about:blank").await;
        page.open(&format!("{}/admin#/schema-table/product", program.url)).await;
        page.fill("Name of the table", "article").await;
        page.press("Remove price").await;
        page.press("Show changes").await;
        page.shows("rename table").await;
        page.run("document.querySelector('.plan input').click()").await;
        page.press("Apply").await;
        page.shows("Applied").await;
        page.open("about:blank").await;
        page.open(&format!("{}/admin#/table/article", program.url)).await;
        page.shows("Chair").await;
        page.hides("12.5").await;
        page.open("about:blank").await;
        page.open(&format!("{}/admin#/table/note", program.url)).await;
        page.hides("No such").await;

        // A mistake names the field, and nothing changes.
        page.open("about:blank").await;
        page.open(&format!("{}/admin#/schema-table/article", program.url)).await;
        page.press("Remove id").await;
        page.press("Show changes").await;
        page.shows("key").await;
        page.is_accessible("schema-fault").await;
        page.close().await;

        let phone = driver.browser(Look::Phone).await;
        phone.open(&format!("{}/admin", program.url)).await;
        phone.fill("Name", "admin").await;
        phone.fill("Password", PASSWORD).await;
        phone.press("Sign in").await;
        phone.shows("article").await;
        phone.open("about:blank").await;
        phone.open(&format!("{}/admin#/schema-table/note", program.url)).await;
        phone.is_accessible("schema-table-phone").await;
        phone.close().await;
    });
}
