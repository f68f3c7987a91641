//! One row: fields of all kinds, files, related rows and the history.

use crate::browser::{Driver, Look, run};
use crate::samples::{Samples, Size, Thing};

#[test]
fn a_row_with_fields_of_all_kinds_is_made_changed_restored_and_deleted() {
    let samples = Samples::start(&["Lamp"]);
    let text = samples.file("notes.txt", b"a lamp in the hall");
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.open(&format!("{}/admin#/table/thing", samples.url)).await;
        page.press("New row").await;
        page.shows("New row of thing").await;

        // All invalid fields are named at once.
        page.fill("number", "many").await;
        page.press("Create").await;
        page.shows("must be a number").await;
        page.is_accessible("new-row").await;

        page.fill("name", "Bulb").await;
        page.fill("number", "9007199254740993").await;
        page.fill("weight", "2.5").await;
        page.fill("price", "19.99").await;
        page.check("active").await;
        page.choose("size", "large").await;
        page.run("const born = [...document.querySelectorAll('input[type=date]')][0]; born.value = '1815-12-10'").await;
        page.fill("opens", "08:30").await;
        page.fill("seen", "2026-01-31T12:00:00Z").await;
        page.press("Random").await;
        page.fill("options", "{\"colour\":[\"red\"]}").await;
        page.press("Choose parent").await;
        page.is_accessible("reference").await;
        page.fill("Search thing", "lam").await;
        page.press("1 Lamp").await;
        page.add("picture", &text).await;
        page.press("Create").await;
        page.shows("thing 2").await;
        page.shows("notes.txt (text/plain, 18 B)").await;
        let thing = samples.thing(2);
        assert_eq!(
            (&*thing.name, thing.number, thing.active, thing.size),
            ("Bulb", 9_007_199_254_740_993, true, Size::Large)
        );
        assert_eq!((thing.weight, thing.price), (Some(2.5), Some("19.99".parse().unwrap())));
        assert_eq!(thing.born, Some("1815-12-10".parse().unwrap()));
        assert_eq!(thing.opens, Some("08:30:00".parse().unwrap()));
        assert!(thing.code.is_some());
        assert_eq!(thing.options.unwrap().0, serde_json::json!({ "colour": ["red"] }));
        assert_eq!((thing.note, thing.parent.map(|parent| *parent.key())), (None, Some(1)));
        assert_eq!(thing.picture.unwrap().bytes, 18);
        page.is_accessible("row").await;

        // The number keeps its digits when another field is saved.
        page.fill("name", "Bright bulb").await;
        page.fill("note", "").await;
        page.add("note", "for the hall").await;
        page.press("Save").await;
        page.shows("Saved").await;
        page.wait("document.querySelector('main').innerText.includes('Bright bulb')").await;
        let thing = samples.thing(2);
        assert_eq!(
            (&*thing.name, thing.number, thing.note.as_deref()),
            ("Bright bulb", 9_007_199_254_740_993, Some("for the hall"))
        );

        // An earlier version comes back.
        let first = "[aria-label^='Restore the version of']";
        page.wait(&format!("document.querySelectorAll(\"{first}\").length > 0")).await;
        page.run(&format!("[...document.querySelectorAll(\"{first}\")].at(-1).click()")).await;
        page.press("Restore").await;
        page.shows("Restored").await;
        page.wait("[...document.querySelectorAll('input')].some(input => input.value === 'Bulb')")
            .await;
        assert_eq!(samples.thing(2).name, "Bulb");

        // Files are removed, and a blob is stored.
        let bytes = samples.file("bytes.bin", &[0, 1, 2, 255]);
        page.check("Remove").await;
        page.add("raw", &bytes).await;
        page.press("Save").await;
        page.hides("notes.txt (text/plain").await;
        page.wait("document.querySelector('main').innerText.includes('Download')").await;
        let blob =
            samples.store.list::<Thing>().filter(Thing::ID.eq(2)).column(Thing::RAW).run().unwrap();
        assert_eq!(blob[0].as_ref().and_then(|blob| blob.bytes()), Some(&[0, 1, 2, 255][..]));
        assert!(samples.thing(2).picture.is_none());

        // Another program's change is not overwritten.
        samples.store.patch::<Thing>(2).set(Thing::NUMBER, 7).run().unwrap();
        page.fill("name", "Candle").await;
        page.press("Save").await;
        page.shows("The row was changed meanwhile").await;
        assert_eq!(samples.thing(2).name, "Bulb");

        // The row that the others belong to shows them, and cannot be deleted before them.
        page.open(&format!("{}/admin#/row/thing/1", samples.url)).await;
        page.shows("thing by parent").await;
        page.press("2").await;
        page.shows("thing 2").await;
        page.press("Delete").await;
        page.press("Delete").await;
        page.shows("Deleted").await;
        page.shows("Lamp").await;
        assert_eq!(samples.store.count::<Thing>().run().unwrap(), 1);

        // Its history remains, and restores it.
        page.open(&format!("{}/admin#/row/thing/2", samples.url)).await;
        page.shows("This row does not exist.").await;
        page.is_accessible("deleted-row").await;
        page.run(&format!("[...document.querySelectorAll(\"{first}\")].at(-1).click()")).await;
        page.press("Restore").await;
        page.shows("Restored").await;
        page.wait("[...document.querySelectorAll('input')].some(input => input.value === 'Bulb')")
            .await;
        assert_eq!(samples.thing(2).number, 9_007_199_254_740_993);
        page.close().await;
    });
}

#[test]
fn the_pages_fit_a_phone() {
    let samples = Samples::start(&["Lamp", "A chair with a long name that has no end"]);
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Phone).await;
        for (name, path) in [
            ("start", "/"),
            ("tables", "/admin"),
            ("grid", "/admin#/table/thing"),
            ("row", "/admin#/row/thing/1"),
            ("new-row", "/admin#/new/thing"),
            ("docs", "/docs"),
        ] {
            page.open("about:blank").await;
            page.open(&format!("{}{path}", samples.url)).await;
            page.is_accessible(&format!("phone-{name}")).await;
        }
        page.press("Menu").await;
        page.is_accessible("phone-menu").await;
        page.close().await;
    });
}
