//! Full-text search: every engine finds the same rows, regardless of how they were written.

use marmota_derive::Model;
use marmota_model::{
    ErrorKind, Field, Filter, FilterExpr, Kind, Record, Role, Schema, Search, SearchLanguage, Uuid,
    Value, Words, parse_filter,
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

#[derive(Clone, Debug, Default, Model, PartialEq)]
#[model(search_language = "english")]
struct Report {
    id: i64,
    #[model(search)]
    title: String,
    #[model(search)]
    body: String,
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

/// In a table with a language, a search finds other forms of a word, in phrases, prefixes and
/// exclusions too. Scores count them.
pub fn forms_of_words_are_found(subject: &Subject) {
    let mut stand = Stand::open(subject, |builder| builder.model::<Report>());
    let report = |title: &str, body: &str| Report { id: 0, title: title.into(), body: body.into() };
    let rows = [
        report("Running marmots", "They hoped for connections. Possibly!"),
        report("He runs", "An apology; geologists apologize."),
        report("A run-time error", "hopping, possible, connected"),
        report("Runner", "hope"),
    ];
    let keys = stand.insert_many(&rows).run().unwrap();
    stand.settle();
    for (text, wanted) in [
        ("run", vec![0, 1, 2]),
        ("RUNNING", vec![0, 1, 2]),
        ("runs -marmot", vec![1, 2]),
        ("\"run marmot\"", vec![0]),
        ("\"runs times\"", vec![2]),
        ("hoping", vec![0, 3]),
        ("hops", vec![2]),
        ("connecting possible", vec![0, 2]),
        ("apologies", vec![1]),
        ("geologist", vec![1]),
        ("connect*", vec![0, 2]),
        ("connections*", vec![0, 2]),
        ("\"marmot\" hope*", vec![0]),
    ] {
        let wanted: Vec<i64> = wanted.into_iter().map(|row: usize| keys[row]).collect();
        let list = || stand.list::<Report>().filter(Filter::search(text));
        assert_eq!(list().column(Report::ID).run().unwrap(), wanted, "{text}");
        for (row, score) in list().ranked().scores().run().unwrap() {
            assert!(score > 0.0, "{text}: {row:?}");
        }
    }
    stand.patch::<Report>(keys[0]).set(Report::TITLE, "Walking").run().unwrap();
    let found = stand.list::<Report>().filter(Report::TITLE.search("walked"));
    assert_eq!(found.column(Report::ID).run().unwrap(), keys[..1]);
    let found = stand.count::<Report>().filter(Report::TITLE.search("run")).run().unwrap();
    assert_eq!(found, 2);
}

/// Words of suffixes that Porter's rules name have the same stems on every engine.
pub fn random_words_have_the_same_stems(subject: &Subject) {
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let word = "[bdglmnrstvy]?[aeiouy][bdglmnrst]{0,2}([aeiouy][bglnst])?\
                (ational|izer|logy|logies|bly|blies|alli|ization|fulness|ical|able|ement|ion|ing|ed|ies|y)?";
    let words = vec(word, 1_200).new_tree(&mut runner).unwrap().current();
    let stand = Stand::open(subject, |builder| builder.model::<Report>());
    let rows: Vec<Report> = words
        .chunks(40)
        .map(|words| Report { id: 0, title: words.join(" "), body: String::new() })
        .collect();
    let keys = stand.insert_many(&rows).run().unwrap();
    let stems = |text: &str| {
        let mut words = Words::in_language(Some(SearchLanguage::English));
        words.take(text);
        words
    };
    for word in words.iter().step_by(3) {
        let search = Search::new(word);
        let matching = rows.iter().zip(&keys).filter(|(row, _)| search.finds(&[stems(&row.title)]));
        let wanted: Vec<i64> = matching.map(|(_, key)| *key).collect();
        let found = stand.list::<Report>().filter(Filter::search(word)).column(Report::ID).run();
        assert_eq!(found.unwrap(), wanted, "{word}");
    }
}

/// A table with rows gets a language, and loses it: the plan has the step, and searches follow it.
pub fn a_language_comes_and_goes(subject: &Subject) {
    if !subject.capability().persistent {
        return;
    }
    let schema = |language| {
        let text = Field::new("text", Kind::TEXT).search(true);
        Schema::new("memo", vec![Field::new("id", Kind::I64).role(Role::Key), text])
            .search_language(language)
    };
    let english = Some(SearchLanguage::English);
    for (language, is_found) in [(None, false), (english, true), (english, true), (None, false)] {
        let plan = subject.builder().schema(schema(language)).plan().unwrap();
        let store = subject.builder().schema(schema(language)).open().unwrap();
        let table = store.table("memo").unwrap();
        let finds = |text: &str| {
            let filter = Some(FilterExpr::search(text));
            let query = marmota_model::RowQuery { filter, ..marmota_model::RowQuery::new() };
            !store.list_records(&table).query(query).run().unwrap().is_empty()
        };
        if !finds("marmots") {
            let mut record = Record::new(std::sync::Arc::clone(&table));
            record.set("text", "marmots").unwrap();
            store.insert_record(&record).run().unwrap();
        }
        assert_eq!(finds("marmot"), is_found, "{language:?}");
        let steps: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
        if let Some(step) = steps.iter().find(|step| step.contains("search")) {
            assert_eq!(step.ends_with(" in english"), is_found, "{steps:?}");
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
    forms_of_words_are_found,
    random_words_have_the_same_stems,
    a_language_comes_and_goes,
    a_bad_search_is_refused,
    writers_at_once_keep_the_words,
; by transactions:
    every_write_keeps_the_words,
    undone_writes_leave_no_words,
);
