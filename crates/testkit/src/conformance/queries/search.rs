//! Full-text search: every engine finds the same rows, regardless of how they were written.

use marmota_derive::Model;
use marmota_model::{
    ErrorKind, Field, Filter, FilterExpr, Kind, Record, Role, Schema, Search, Uuid, Value, Words,
    parse_filter,
};
use marmota_store::StoreBuilder;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::conformance::harness::refusal::{blamed, refused, says};
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Article {
    id: i64,
    #[model(search)]
    title: String,
    #[model(search, collate = "nocase")]
    body: Option<String>,
    #[model(unique)]
    code: Option<String>,
    notes: String,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Leaflet {
    id: Uuid,
    #[model(search)]
    rank: String,
}

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Page {
    #[model(key, collate = "nocase")]
    name: String,
    #[model(search)]
    text: String,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Article>().model::<Leaflet>().model::<Page>()
}

fn article(title: &str, body: Option<&str>) -> Article {
    Article { title: title.to_owned(), body: body.map(str::to_owned), ..Article::default() }
}

fn found(stand: &Stand<'_>, filter: Filter<Article>) -> Vec<i64> {
    stand.list::<Article>().filter(filter).column(Article::ID).run().unwrap()
}

fn searched(stand: &Stand<'_>, text: &str) -> Vec<i64> {
    found(stand, Filter::search(text))
}

/// Words, phrases, prefixes and exclusions work in one field and in all, typed and as text, alone
/// and with other conditions.
pub fn words_are_searched_for(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let rows = [
        article("The Alpine marmot", Some("It sleeps. L'ÉTÉ, it eats!")),
        article("Marmots and dogs", None),
        article("Alpine meadow", Some("alpine dog")),
        article("NEAR rank OR title: {x} ^a", Some("\"quoted\" AND NOT * -")),
    ];
    let keys = stand.insert_many(&rows).run().unwrap();
    stand.settle();
    let table = stand.table("article").unwrap();
    for (filter, text, wanted) in [
        (Filter::search("alpine"), "@ 'alpine'", vec![0, 2]),
        (Filter::search("MARMOT*"), "@ 'MARMOT*'", vec![0, 1]),
        (Filter::search("alpine -dog"), "@ 'alpine -dog'", vec![0]),
        (Filter::search("marmot été"), "@ 'marmot été'", vec![0]),
        (Filter::search("\"alpine mea*\""), "@ '\"alpine mea*\"'", vec![2]),
        (Filter::search("\"marmot it\""), "@ '\"marmot it\"'", vec![]),
        (Article::TITLE.search("alpine"), "title @ 'alpine'", vec![0, 2]),
        (Article::BODY.search("alpine"), "body @ 'alpine'", vec![2]),
        (Article::BODY.search("dog -alpine"), "body @ 'dog -alpine'", vec![]),
        (!Article::BODY.search("alpine"), "not body @ 'alpine'", vec![0, 1, 3]),
        (Filter::search("near or rank"), "@ 'near or rank'", vec![3]),
        (Filter::search("title:x"), "@ 'title:x'", vec![3]),
        (Filter::search("or:x"), "@ 'or:x'", vec![]),
        (Filter::search("quoted and not"), "@ 'quoted and not'", vec![3]),
        (Filter::search("{x}"), "@ '{x}'", vec![3]),
        (
            Article::TITLE.search("alpine").and(Article::BODY.contains("DOG")),
            "title @ 'alpine' and body ~ 'DOG'",
            vec![2],
        ),
        (
            Article::TITLE.search("dogs").or(Article::TITLE.search("meadow")),
            "title @ 'dogs' or title @ 'meadow'",
            vec![1, 2],
        ),
    ] {
        let wanted: Vec<i64> = wanted.into_iter().map(|row: usize| keys[row]).collect();
        assert_eq!(parse_filter(&table, text).unwrap().of().unwrap(), filter, "{text}");
        assert_eq!(found(&stand, filter.clone()), wanted, "{text}");
        let count = stand.count::<Article>().filter(filter).run().unwrap();
        assert_eq!(count, wanted.len() as u64, "{text}");
    }
    // A search works like any filter with pages, orders and deletes.
    let page = || stand.list::<Article>().filter(Filter::search("alpine")).limit(1);
    let first = page().order(Article::TITLE.descending()).run().unwrap();
    assert_eq!(first[0].id, keys[0]);
    let next = page().order(Article::TITLE.descending()).after(&first[0]).run().unwrap();
    assert_eq!(next[0].id, keys[2]);
    assert_eq!(stand.delete_where::<Article>(Filter::search("alpine")).run().unwrap(), 2);
    assert_eq!(stand.count::<Article>().run().unwrap(), 2);
    assert_eq!(searched(&stand, "alpine"), [0_i64; 0]);
}

/// Insert, update, patch, increment, delete, batches, conflict actions and changes of keys keep the
/// index up to date, with the same outcomes as without a search.
pub fn every_write_keeps_the_words(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let one = stand.insert(&article("one", None)).run().unwrap();
    let keys =
        stand.insert_many(&[article("two", Some("x")), article("three", None)]).run().unwrap();
    assert_eq!(keys, [one + 1, one + 2]);
    assert_eq!(searched(&stand, "two x"), [keys[0]]);
    stand.update(&Article { id: one, ..article("uno", Some("y")) }).run().unwrap();
    assert_eq!((searched(&stand, "one"), searched(&stand, "uno y")), (vec![], vec![one]));
    stand.patch::<Article>(keys[0]).set(Article::BODY, None).run().unwrap();
    assert_eq!((searched(&stand, "x"), searched(&stand, "two")), (vec![], vec![keys[0]]));
    stand.patch::<Article>(keys[0]).set(Article::NOTES, "not searched").run().unwrap();
    assert_eq!((searched(&stand, "searched"), searched(&stand, "two")), (vec![], vec![keys[0]]));
    let mut batch = stand.batch();
    batch.insert(&article("four", None)).delete::<Article>(keys[1]).insert(&article("five", None));
    let results = batch.all_or_nothing().run().unwrap();
    assert!(results.iter().all(|result| result.as_ref().unwrap().rows == 1));
    assert_eq!((searched(&stand, "three"), searched(&stand, "four")), (vec![], vec![one + 3]));
    let changed = [
        Article { id: one, ..article("un", None) },
        Article { id: keys[0], ..article("deux", None) },
    ];
    assert_eq!(stand.update_many(&changed).run().unwrap(), 2);
    assert_eq!((searched(&stand, "uno"), searched(&stand, "deux")), (vec![], vec![keys[0]]));
    assert_eq!(stand.delete_where::<Article>(Article::TITLE.eq("un")).run().unwrap(), 1);
    let coded = |title: &str| Article { code: Some("c".into()), ..article(title, None) };
    let first = stand.insert(&coded("first")).run().unwrap();
    stand.insert(&coded("second")).or_replace().run().unwrap();
    assert_eq!(searched(&stand, "first"), [0_i64; 0]);
    let second = searched(&stand, "second")[0];
    stand.insert(&coded("third")).or_update().run().unwrap();
    stand.insert(&coded("fourth")).or_ignore().run().unwrap();
    assert_eq!((searched(&stand, "second"), searched(&stand, "fourth")), (vec![], vec![]));
    assert_eq!(searched(&stand, "third"), [second]);
    stand.delete::<Article>(second).run().unwrap();
    // A key that was used before.
    stand.insert(&Article { id: first, ..article("again", None) }).run().unwrap();
    stand.settle();
    assert_eq!((searched(&stand, "first"), searched(&stand, "third")), (vec![], vec![]));
    assert_eq!(searched(&stand, "again"), [first]);
    assert_eq!(searched(&stand, "five"), [one + 4]);
}

/// Search works with UUID and text keys, and with fields that have names an engine might use
/// internally.
pub fn keys_of_any_kind_are_found(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let leaflet = |rank: &str| Leaflet { rank: rank.to_owned(), ..Leaflet::default() };
    let ids = stand.insert_many(&[leaflet("red fox"), leaflet("grey fox")]).run().unwrap();
    let page = |name: &str, text: &str| Page { name: name.to_owned(), text: text.to_owned() };
    stand.insert(&page("Fox", "red fox")).run().unwrap();
    stand.insert(&page("hare", "grey hare")).run().unwrap();
    stand.settle();
    let leaflets = |text: &str| {
        stand.list::<Leaflet>().filter(Filter::search(text)).column(Leaflet::ID).run().unwrap()
    };
    assert_eq!(leaflets("grey fox"), [ids[1]]);
    stand.patch::<Leaflet>(ids[1]).set(Leaflet::RANK, "white fox").run().unwrap();
    assert_eq!((leaflets("grey"), leaflets("white")), (vec![], vec![ids[1]]));
    stand.delete::<Leaflet>(ids[0]).run().unwrap();
    assert_eq!(leaflets("fox"), [ids[1]]);
    let pages = |text: &str| {
        stand.list::<Page>().filter(Page::TEXT.search(text)).column(Page::NAME).run().unwrap()
    };
    assert_eq!(pages("red"), ["Fox"]);
    stand.insert(&page("fox", "blue")).or_replace().run().unwrap();
    assert_eq!((pages("red"), pages("blue")), (vec![], vec!["fox".to_owned()]));
    stand.update(&page("hare", "gone")).run().unwrap();
    assert_eq!((pages("grey"), pages("gone")), (vec![], vec!["hare".to_owned()]));
}

/// Random Unicode texts and searches find the same rows as a reference implementation.
pub fn random_texts_are_searched_alike(subject: &Subject) {
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let part = || {
        prop_oneof![
            3 => select(vec!["a", "A", "b", "ab", "é", "E\u{301}", "ß", "Σ", "ς", "日本", "1", "_", "-", "\u{300}"])
                .prop_map(str::to_owned),
            2 => select(vec![" ", "  ", ".", "\u{a0}", "\u{2009}"]).prop_map(str::to_owned),
            2 => any::<char>().prop_filter("no NUL", |c| *c != '\0').prop_map(String::from),
        ]
    };
    let texts = vec(vec(part(), 0..8).prop_map(|parts| parts.concat()), 400);
    let texts = texts.new_tree(&mut runner).unwrap().current();
    let mut stand = Stand::open(subject, models);
    let articles: Vec<Article> =
        texts.chunks(2).map(|pair| article(&pair[0], pair.get(1).map(|body| &**body))).collect();
    let keys = stand.insert_many(&articles).run().unwrap();
    stand.settle();
    let words_of = |text: &str| {
        let mut words = Words::default();
        words.take(text);
        words
    };
    let star = select(vec!["", "", "*"]);
    let term = (vec(part(), 1..4), star, select(vec!["", "", "", "-"])).prop_map(
        |(parts, star, minus)| {
            let text: String = parts.concat().replace(['"', '*'], " ");
            format!("{minus}\"{text}\"{star}")
        },
    );
    let searches = vec(vec(term, 1..3).prop_map(|terms| terms.join(" ")), 600);
    let mut hits = 0;
    for text in searches.new_tree(&mut runner).unwrap().current() {
        let search = Search::new(&text);
        if search.terms().is_err() {
            continue;
        }
        let rows = articles.iter().zip(&keys);
        let wanted: Vec<i64> = rows
            .filter(|(article, _)| {
                let body = article.body.as_deref().unwrap_or_default();
                search.finds(&[words_of(&article.title), words_of(body)])
            })
            .map(|(_, key)| *key)
            .collect();
        hits += usize::from(!wanted.is_empty());
        assert_eq!(searched(&stand, &text), wanted, "{text:?}");
    }
    assert!(hits > 50, "{hits} searches find something");
}

/// A field that becomes searchable is indexed at once. A field that is no longer searchable is
/// refused.
pub fn a_search_comes_and_goes(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let schema = |first: bool, second: bool| {
        let key = Field::new("id", Kind::I64).role(Role::Key);
        let text = |name| Field::new(name, Kind::TEXT);
        Schema::new("thing", vec![key, text("a").search(first), text("b").search(second)])
    };
    for (first, second, write, wanted) in [
        (false, false, "plain", None),
        (true, false, "word", Some(vec![1, 2])),
        (true, true, "word", Some(vec![1, 2, 3])),
        (false, false, "plain", None),
        (false, true, "word", Some(vec![1, 2, 3, 4, 5])),
    ] {
        let store = subject.builder().schema(schema(first, second)).open().unwrap();
        let table = store.table("thing").unwrap();
        let mut record = Record::new(std::sync::Arc::clone(&table));
        record.set("a", "common").unwrap();
        record.set("b", Value::from(format!("common {write}"))).unwrap();
        store.insert_record(&record).run().unwrap();
        let query = |text: &str| marmota_model::RowQuery {
            filter: Some(FilterExpr::search(text)),
            ..marmota_model::RowQuery::new()
        };
        match wanted {
            Some(wanted) => {
                let rows = store.list_records(&table).query(query("common")).run().unwrap();
                let found: Vec<Value> = rows.iter().map(|row| row.values()[0].clone()).collect();
                let wanted: Vec<Value> = wanted.into_iter().map(Value::Int).collect();
                assert_eq!(found, wanted);
                let rows = store.list_records(&table).query(query("word")).run().unwrap();
                assert_eq!(rows.is_empty(), !second);
            }
            None => {
                refused(
                    store.list_records(&table).query(query("common")).run(),
                    ErrorKind::Invalid,
                );
            }
        }
        store.close().unwrap();
    }
}

/// An invalid search, and a search in a field without an index, are refused.
pub fn a_bad_search_is_refused(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let list = |filter| stand.list::<Article>().filter(filter).run();
    for (text, part) in [
        ("", "no word"),
        ("-dog", "only exclude"),
        ("a \"b", "closing quote"),
        ("a*b", "at the end"),
        ("*", "no letter"),
        ("a\0b", "U+0000"),
    ] {
        says(&refused(list(Filter::search(text)), ErrorKind::Invalid), &[part]);
    }
    refused(list(Filter::search(&"a ".repeat(40))), ErrorKind::Invalid);
    blamed(list(Article::NOTES.search("a")), ErrorKind::Invalid, "notes", "search");
    stand.close().unwrap();
    let number = Schema::new("t", vec![Field::new("id", Kind::I64).role(Role::Key).search(true)]);
    let opened = subject.builder().schema(number).open();
    says(&refused(opened, ErrorKind::Invalid), &["field `id`", "only text fields"]);
}

/// A write that fails, a transaction that is rolled back and a rollback to a savepoint leave no
/// words in the index.
pub fn undone_writes_leave_no_words(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let coded = |title: &str| Article { code: Some("c".into()), ..article(title, None) };
    let key = stand.insert(&coded("kept")).run().unwrap();
    refused(stand.insert(&coded("lost")).run(), ErrorKind::Conflict);
    let mut batch = stand.batch();
    batch.insert(&article("lost", None)).insert(&coded("lost"));
    refused(batch.all_or_nothing().run(), ErrorKind::Conflict);
    let transaction = stand.begin_run().unwrap();
    transaction.delete::<Article>(key).run().unwrap();
    transaction.insert(&article("lost", None)).run().unwrap();
    let seen = transaction.count::<Article>().filter(Filter::search("lost")).run().unwrap();
    assert_eq!(seen, 1, "a transaction sees its own words");
    transaction.rollback().run().unwrap();
    drop(transaction);
    let written = stand.transaction(|transaction| {
        let savepoint = transaction.savepoint_run()?;
        transaction.insert(&article("lost", None)).run()?;
        transaction.rollback_to(&savepoint).run()?;
        transaction.insert(&article("found", None)).run()
    });
    stand.settle();
    assert_eq!(searched(&stand, "lost"), [0_i64; 0]);
    assert_eq!(searched(&stand, "kept"), [key]);
    assert_eq!(searched(&stand, "found"), [written.unwrap()]);
}

/// With many concurrent writers, some of which are refused, the index has the words of the rows.
pub fn writers_at_once_keep_the_words(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let store = stand.store();
            scope.spawn(move || {
                for round in 0..20 {
                    // Two threads insert each code; one of them is refused.
                    let code = Some(format!("{} {round}", thread / 2));
                    let title = format!("by {thread} round {round}");
                    let article = Article { code, ..article(&title, Some("shared")) };
                    match store.insert(&article).run() {
                        Ok(key) if round % 5 == 0 => store.delete::<Article>(key).run().unwrap(),
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                    }
                }
            });
        }
    });
    stand.settle();
    let rows = stand.list::<Article>().run().unwrap();
    let keys = |word: &str| -> Vec<i64> {
        let has = |row: &&Article| row.title.split(' ').any(|part| part == word);
        rows.iter().filter(has).map(|row| row.id).collect()
    };
    assert_eq!(searched(&stand, "shared").len(), rows.len());
    for word in (0..20).map(|word| word.to_string()) {
        assert_eq!(searched(&stand, &word), keys(&word), "{word}");
    }
}

register!($ search_promises search:
    words_are_searched_for,
    keys_of_any_kind_are_found,
    random_texts_are_searched_alike,
    a_search_comes_and_goes,
    a_bad_search_is_refused,
    writers_at_once_keep_the_words,
; by transactions:
    every_write_keeps_the_words,
    undone_writes_leave_no_words,
);
