//! The rows of a table.

use serde_json::json;

use crate::browser::{Browser, Driver, Look, run};
use crate::samples::{Samples, Thing};

/// The texts of a column that is shown, from the top.
async fn column(page: &Browser, name: &str) -> serde_json::Value {
    let script = format!(
        "const at = [...document.querySelectorAll('[role=grid] th')].findIndex(th => \
         th.textContent.replace(/[ ↑↓]/g, '') === '{name}')
         return [...document.querySelectorAll('[role=grid] tbody tr')].map(row => row.children[at].textContent)"
    );
    page.run(&script).await
}

#[test]
fn rows_are_filtered_ordered_and_paged() {
    let names: Vec<String> = (1..=60).map(|number| format!("Thing {number}")).collect();
    let samples = Samples::start(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&format!("{}/admin", samples.url)).await;
        page.shows("No login: everyone may change all rows").await;
        page.press("thing").await;
        page.shows("60 rows").await;
        page.shows("Live").await;
        page.is_accessible("grid").await;

        // The second page has the rest, and the first one comes back.
        page.press("Next page").await;
        page.shows("Thing 60").await;
        page.hides("Thing 12").await;
        page.press("First page").await;
        page.shows("Thing 12").await;

        // The order is that of the heading.
        page.press("number").await;
        page.wait("location.hash.includes('order=number')").await;
        page.press("number ↑").await;
        page.shows("number ↓").await;
        page.shows("Thing 60").await;
        assert_eq!(column(&page, "number").await[0], json!("60"));

        // A condition is built of a field, an operator and a value; others are typed.
        page.press("Condition …").await;
        page.choose("Field", "number").await;
        page.choose("Operator", "at most").await;
        page.fill("Value", "3").await;
        page.is_accessible("condition").await;
        page.press("Add condition").await;
        page.shows("3 rows").await;
        assert_eq!(column(&page, "number").await, json!(["3", "2", "1"]));
        page.fill("Filter", "number = 2 or name ~ 'thing 5'").await;
        page.press("Filter").await;
        page.shows("12 rows").await;
        page.fill("Filter", "colour = 'red'").await;
        page.keys("\u{e007}").await;
        page.shows("colour").await;
        page.wait(
            "document.querySelector('main div.error[role=alert]').textContent.includes('colour')",
        )
        .await;
        page.is_accessible("filter-error").await;
        page.press("Clear").await;
        page.shows("60 rows").await;

        // Columns are hidden, also after the page is loaded again.
        page.press("Columns").await;
        page.is_accessible("columns").await;
        page.check("weight").await;
        page.wait("![...document.querySelectorAll('th')].some(th => th.textContent === 'weight')")
            .await;
        page.open(&format!("{}/admin#/table/thing", samples.url)).await;
        page.shows("60 rows").await;
        page.wait("![...document.querySelectorAll('th')].some(th => th.textContent === 'weight')")
            .await;
        page.loads_nothing_foreign().await;
        page.close().await;
    });
}

#[test]
fn a_cell_is_edited_in_place_and_rows_change_as_others_write() {
    let samples = Samples::start(&["Lamp", "Chair", "Table"]);
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Dark).await;
        page.open(&format!("{}/admin#/table/thing", samples.url)).await;
        assert_eq!(
            page.run("return matchMedia('(prefers-color-scheme: dark)').matches").await,
            json!(true)
        );
        page.shows("Live").await;

        // By keyboard: to the name of the second row, a new value, and Enter.
        page.element("[data-at='0,0']").await.click().await.unwrap();
        page.keys("\u{e015}").await;
        page.keys("\u{e014}").await;
        page.wait("document.activeElement.dataset.at === '1,1'").await;
        page.keys("\u{e007}").await;
        page.wait("document.activeElement.matches('[data-at] input')").await;
        page.is_accessible("cell").await;
        page.keys("Armchair\u{e007}").await;
        page.shows("Saved").await;
        page.wait("document.activeElement.dataset.at === '1,1'").await;
        assert_eq!(samples.thing(2).name, "Armchair");

        // An invalid value stays in the cell; Escape leaves it.
        page.keys("\u{e007}").await;
        page.wait("document.activeElement.matches('[data-at] input')").await;
        page.run("document.activeElement.value = ''").await;
        page.keys("\u{e007}").await;
        page.shows("must not be empty").await;
        page.is_accessible("cell-error").await;
        page.keys("\u{e00c}").await;
        page.shows("Armchair").await;
        assert_eq!(samples.thing(2).name, "Armchair");

        // Rows that others write appear.
        samples.store.insert(&Thing::named("Vase", 9_007_199_254_740_993)).run().unwrap();
        page.shows("Vase").await;
        page.shows("9007199254740993").await;
        samples.store.patch::<Thing>(1).set(Thing::NAME, "Lantern".to_owned()).run().unwrap();
        page.shows("Lantern").await;
        samples.store.delete::<Thing>(3).run().unwrap();
        page.wait("document.querySelectorAll('[role=grid] tbody tr').length === 3").await;

        // A row that was changed meanwhile is not overwritten, as it has a version.
        page.check("Select 1").await;
        page.check("Select 4").await;
        page.press("Delete selected").await;
        page.is_accessible("confirm").await;
        page.press("Delete").await;
        page.shows("Deleted 2").await;
        page.wait("document.querySelectorAll('[role=grid] tbody tr').length === 1").await;
        assert_eq!(samples.store.count::<Thing>().run().unwrap(), 1);
        page.close().await;
    });
}
