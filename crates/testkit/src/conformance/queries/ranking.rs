//! Lists in a computed order: the best rows first, the same on every engine.

use marmota_derive::Model;
use marmota_model::{
    Caller, ErrorKind, FieldSet, Filter, FilterExpr, RankPlace, RankedQuery, Ranking, Value,
    ValueRef,
};
use marmota_store::operation::Operation;
use marmota_store::rights::{Grant, Right, Rights};
use marmota_store::{Store, StoreBuilder};
use std::ops::ControlFlow;

use crate::conformance::harness::refusal::refused;
use crate::conformance::harness::subject::{Stand, Subject};

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Guide {
    id: i64,
    owner: i64,
    #[model(search)]
    title: String,
    #[model(search)]
    body: Option<String>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Guide>()
}

fn guide(owner: i64, title: &str, body: Option<&str>) -> Guide {
    Guide { id: 0, owner, title: title.to_owned(), body: body.map(str::to_owned) }
}

fn rows() -> Vec<Guide> {
    let mention = format!("{} an alpine marmot {}", "word ".repeat(60), "word ".repeat(60));
    vec![
        guide(1, "Mammals", Some(&mention)),
        guide(1, "The alpine marmot", Some("It sleeps.")),
        guide(2, "Alpine flowers", Some("A marmot eats them. Marmots!")),
        guide(1, "Dogs", None),
        guide(2, "The alpine marmot", Some("Alpine marmot: the marmot of the Alps.")),
    ]
}

fn ranked(store: &Store, filter: Filter<Guide>) -> Vec<Guide> {
    store.list::<Guide>().filter(filter).ranked().run().unwrap()
}

fn positions(keys: &[i64], rows: &[Guide]) -> Vec<usize> {
    rows.iter().map(|row| keys.iter().position(|key| *key == row.id).unwrap()).collect()
}

/// A row with all words in a title is above one that mentions them, more occurrences are above
/// fewer, and other conditions and prefixes apply.
pub fn the_best_rows_come_first(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let keys = stand.insert_many(&rows()).run().unwrap();
    stand.settle();
    for (filter, wanted) in [
        (Filter::search("alpine marmot"), vec![4, 1, 2, 0]),
        (Filter::search("alp* -flowers"), vec![4, 1, 0]),
        (Filter::search("\"alpine marmot\""), vec![4, 1, 0]),
        (Guide::TITLE.search("marmot"), vec![1, 4]),
        (Filter::search("marmot").and(Guide::OWNER.eq(1)), vec![1, 0]),
        (Filter::search("dogs").or(Guide::TITLE.search("mammals")), vec![0, 3]),
        (Filter::search("nothing"), vec![]),
    ] {
        let found = ranked(&stand, filter.clone());
        assert_eq!(positions(&keys, &found), wanted, "{filter:?}");
        let scored = stand.list::<Guide>().filter(filter).ranked().scores().run().unwrap();
        assert!(scored.iter().map(|(row, _)| row).eq(&found));
        assert!(scored.is_sorted_by(|a, b| a.1 >= b.1) && scored.iter().all(|row| row.1 > 0.0));
    }
}

/// Pages by the place of the last row have each row once, also with equal scores.
pub fn pages_continue_after_a_score(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    let mut all = rows();
    all.extend(rows());
    stand.insert_many(&all).run().unwrap();
    stand.settle();
    let list = || stand.list::<Guide>().filter(Filter::search("marmot")).ranked();
    let whole = list().run().unwrap();
    assert_eq!(whole.len(), 8);
    for limit in [1, 3, 8] {
        let mut pages = list().limit(limit).run().unwrap();
        while let page = list().limit(limit).after(pages.last().unwrap()).run().unwrap()
            && !page.is_empty()
        {
            pages.extend(page);
        }
        assert_eq!(pages, whole, "pages of {limit}");
    }
    assert!(list().limit(0).run().unwrap().is_empty());
}

/// A caller gets the rows that the caller may read, with the same scores as if there were no others.
pub fn hidden_rows_do_not_change_scores(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let all = rows();
    let own: Vec<Guide> = all.iter().filter(|row| row.owner == 1).cloned().collect();
    let keys = stand.insert_many(&own).run().unwrap();
    let grant = Grant::new("guide", &Right::ALL).rule("owner = @user.id");
    let caller = Caller { id: "1".into(), name: "ann".into(), groups: Vec::new() };
    let rights = Rights::new(stand.registry(), Some(caller), &[grant]).unwrap();
    let ann = stand.with_rights(rights);
    let scored = || {
        let list = ann.list::<Guide>().filter(Filter::search("marmot"));
        list.ranked().scores().run().unwrap()
    };
    let before = scored();
    assert_eq!(positions(&keys, &[before[0].0.clone()]), [1]);
    let others: Vec<Guide> = all.into_iter().filter(|row| row.owner == 2).collect();
    stand.insert_many(&others).run().unwrap();
    assert_eq!(scored(), before);
}

/// A ranking without a search, with another order or with too many rows is refused.
pub fn a_bad_ranking_is_refused(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let list = || stand.list::<Guide>();
    refused(list().ranked().run(), ErrorKind::Invalid);
    refused(list().filter(!Filter::search("a")).ranked().run(), ErrorKind::Invalid);
    let search = || list().filter(Filter::search("a"));
    refused(search().order(Guide::ID.ascending()).ranked().run(), ErrorKind::Invalid);
    refused(search().ranked().limit(10_001).run(), ErrorKind::Invalid);
    let table = stand.table("guide").unwrap();
    let filter = FilterExpr::search("a");
    let query = RankedQuery::new(Ranking::relevance(&table, Some(&filter)).unwrap());
    for (score, key) in [(f64::NAN, Value::Int(1)), (1.0, Value::from("x"))] {
        let query = RankedQuery { after: Some(RankPlace { score, key }), ..query.clone() };
        assert_eq!(query.check(&table).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// The fields of the ranking are read even if others are chosen.
pub fn a_ranked_list_reads_what_it_ranks(subject: &Subject) {
    let stand = Stand::open(subject, models);
    stand.insert_many(&rows()).run().unwrap();
    let table = stand.table("guide").unwrap();
    let filter = FilterExpr::search("marmot");
    let by = Ranking::relevance(&table, Some(&filter)).unwrap();
    let fields = Some(FieldSet::EMPTY.with(1));
    let query = RankedQuery { filter: Some(filter), fields, ..RankedQuery::new(by) };
    let mut present = Vec::new();
    let mut sink = |row: &[ValueRef<'_>]| {
        present.push(FieldSet::present(row));
        ControlFlow::Continue(())
    };
    let mut list = Operation::ListRanked { table: &table, query: &query };
    stand.run(&mut list, &mut sink).unwrap();
    assert_eq!(present, [table.all(); 4]);
}

register!($ ranking_promises ranking:
    the_best_rows_come_first,
    pages_continue_after_a_score,
    hidden_rows_do_not_change_scores,
    a_bad_ranking_is_refused,
    a_ranked_list_reads_what_it_ranks,
);
