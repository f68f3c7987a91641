//! Stress runs on stores of several engines: sound ones have no faults, and damage is found.

use marmota_derive::{Model, ModelEnum};
use marmota_model::{Blob, Currency, Date, Ref, Result, Time, Timestamp, Uuid};
use marmota_sqlite::{Location, Sqlite, SqliteOptions};
use marmota_store::{Store, StoreBuilder};
use marmota_testkit::stress;

#[derive(Clone, Copy, Debug, ModelEnum)]
enum Colour {
    Red,
    Blue,
}

#[derive(Debug, Model)]
struct Maker {
    #[model(key)]
    code: Uuid,
    #[model(unique, length(min = 2, max = 30))]
    name: String,
    #[model(email)]
    email: Option<String>,
    founded: Option<Date>,
}

#[derive(Debug, Model)]
#[model(unique(maker, serial))]
struct Part {
    id: i64,
    maker: Ref<Maker>,
    spare: Option<Ref<Part>>,
    #[model(pattern = "[A-Z]{3}-[0-9]{4}")]
    serial: String,
    #[model(range(min = 1, max = 5))]
    level: i32,
    flag: bool,
    ratio: f64,
    price: Option<Currency>,
    opens: Time,
    made: Timestamp,
    photo: Blob,
    colour: Colour,
    #[model(immutable)]
    origin: u16,
    #[model(created_at)]
    created: Timestamp,
    #[model(updated_at)]
    updated: Timestamp,
    #[model(version)]
    version: i64,
}

#[derive(Debug, Model)]
#[model(audit)]
struct Tag {
    #[model(key)]
    word: String,
    #[model(search)]
    text: String,
}

fn models(builder: StoreBuilder) -> Store {
    builder.model::<Maker>().model::<Part>().model::<Tag>().open().unwrap()
}

fn sqlite(folder: &tempfile::TempDir) -> Sqlite {
    Sqlite::open(Location::File(folder.path().join("a.db")), SqliteOptions::default()).unwrap()
}

#[test]
fn sound_stores_have_no_faults() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [
        models(Store::builder(marmota_memory::Memory::new())),
        models(Store::builder(sqlite(&folder))),
    ];
    for store in stores {
        let report = stress(&store).clients(4).operations(400).run().unwrap();
        report.check();
        let text = report.to_string();
        assert!(report.operations() > 1_000, "{text}");
        assert!(!text.contains(" 0 inserts") && !text.contains(" 0 updates"), "{text}");
        // Rows of the first run are left alone.
        stress(&store).operations(50).seed(2).run().unwrap().check();
    }
}

#[test]
fn damage_is_found() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let damages = [
        // A lost update, a lost insert, and a row that nobody wrote.
        ("AFTER UPDATE ON part BEGIN UPDATE part SET level = 3; END", "part.level"),
        ("AFTER INSERT ON tag BEGIN DELETE FROM tag WHERE word = NEW.word; END", "tag"),
        (
            "AFTER INSERT ON maker WHEN NEW.name > 'k' BEGIN \
             INSERT INTO maker VALUES (randomblob(16), 'x' || random(), NULL, NULL); END",
            "maker",
        ),
    ];
    models(Store::builder(sqlite(&folder))).close()?;
    for (damage, name) in damages {
        let engine = sqlite(&folder);
        engine.execute(&format!("CREATE TRIGGER damage {damage}"))?;
        let store = models(Store::builder(engine));
        let report = stress(&store).clients(2).operations(400).run()?;
        assert!(report.faults().iter().any(|fault| fault.contains(name)), "{damage}: {report}");
        store.close()?;
        sqlite(&folder).execute("DROP TRIGGER damage")?;
    }
    Ok(())
}

#[test]
fn a_model_whose_rules_refuse_random_rows_is_named() {
    #[derive(Debug, Model)]
    struct Known {
        id: i64,
        #[model(check = is_known)]
        number: i64,
    }
    fn is_known(number: &i64) -> std::result::Result<(), String> {
        if *number == 123_457 { Ok(()) } else { Err("it is not 123,457".to_owned()) }
    }
    let store = Store::builder(marmota_memory::Memory::new()).model::<Known>().open().unwrap();
    let report = stress(&store).operations(300).run().unwrap();
    let fault = report.faults().first().map(String::as_str).unwrap_or_default();
    assert!(fault.contains("`known`: no random row was accepted; make rows"), "{report}");
    let sound = stress(&store).operations(300).rows(|_| Known { id: 0, number: 123_457 });
    sound.run().unwrap().check();
}
