//! Vectors: what is stored, and lists of the nearest rows, the same as by brute force on every
//! engine.

use marmota_derive::Model;
use marmota_model::{Caller, ErrorKind, Filter, Metric, Vector, parse_ranking};
use marmota_store::StoreBuilder;
use marmota_store::rights::{Grant, Right, Rights};

use crate::conformance::harness::refusal::{blamed, refused};
use crate::conformance::harness::subject::{Stand, Subject};

const DIMENSIONS: usize = 37;

#[derive(Clone, Debug, Default, Model, PartialEq)]
struct Photo {
    id: i64,
    owner: i64,
    #[model(search)]
    title: String,
    embedding: Option<Vector<DIMENSIONS>>,
}

fn models(builder: StoreBuilder) -> StoreBuilder {
    builder.model::<Photo>()
}

/// Returns photos with random embeddings; each tenth has none, and some are equal.
fn photos(count: i64) -> Vec<Photo> {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut photo = |number: i64| {
        let numbers: [f32; DIMENSIONS] = std::array::from_fn(|_| rng.f32() * 2.0 - 1.0);
        let embedding = (number % 10 != 9).then(|| Vector::from(numbers));
        let title = format!("photo {}", number % 3);
        Photo { id: 0, owner: number % 2, title, embedding }
    };
    let mut all: Vec<Photo> = (0..count).map(&mut photo).collect();
    for copy in 0..5 {
        all[20 + copy].embedding = all[0].embedding.clone();
    }
    all
}

/// Returns the keys of the nearest rows, by a sort of all of them.
fn sorted(rows: &[Photo], to: &Vector<DIMENSIONS>, metric: Metric) -> Vec<i64> {
    let with_vector = rows.iter().filter_map(|row| Some((row, row.embedding.as_ref()?)));
    let mut all: Vec<(f64, i64)> = with_vector
        .map(|(row, vector)| (metric.distance(&vector.to_vec(), &to.to_vec()), row.id))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.into_iter().map(|(_, id)| id).collect()
}

fn ids(rows: &[Photo]) -> Vec<i64> {
    rows.iter().map(|row| row.id).collect()
}

fn query() -> Vector<DIMENSIONS> {
    photos(30)[0].embedding.clone().unwrap()
}

/// The nearest rows are those of a sort of all rows: a recall of 1, with each distance, with filters
/// and over pages.
pub fn the_nearest_rows_are_exact(subject: &Subject) {
    let mut stand = Stand::open(subject, models);
    stand.insert_many(&photos(300)).run().unwrap();
    stand.settle();
    let rows = stand.list::<Photo>().run().unwrap();
    let to = query();
    for metric in Metric::ALL {
        let list = || stand.list::<Photo>().nearest(Photo::EMBEDDING, &to, metric);
        let wanted = sorted(&rows, &to, metric);
        assert_eq!(wanted.len(), 270);
        assert_eq!(ids(&list().run().unwrap()), wanted[..100], "{metric:?}");
        assert_eq!(ids(&list().limit(7).run().unwrap()), wanted[..7], "{metric:?}");
        let mut pages = list().limit(40).run().unwrap();
        while let page = list().limit(40).after(pages.last().unwrap()).run().unwrap()
            && !page.is_empty()
        {
            pages.extend(page);
        }
        assert_eq!(ids(&pages), wanted, "{metric:?}");

        let filter = Filter::search("1").and(Photo::OWNER.eq(1));
        let own: Vec<Photo> =
            rows.iter().filter(|row| row.owner == 1 && row.title == "photo 1").cloned().collect();
        let found = list().filter(filter).run().unwrap();
        assert_eq!(ids(&found), sorted(&own, &to, metric), "{metric:?}");
    }
    let near = stand.list::<Photo>().nearest(Photo::EMBEDDING, &to, Metric::L2).limit(9);
    let scored = near.scores().run().unwrap();
    // Six rows have the same vector; they come in the order of keys.
    assert!(scored[..6].iter().all(|(_, distance)| *distance == 0.0) && scored[6].1 > 0.0);
    assert!(scored[..6].is_sorted_by_key(|(row, _)| row.id));
}

/// A caller gets the nearest of the rows that the caller may read.
pub fn the_nearest_rows_are_those_that_may_be_read(subject: &Subject) {
    let stand = Stand::open(subject, models);
    stand.insert_many(&photos(100)).run().unwrap();
    let own = stand.list::<Photo>().filter(Photo::OWNER.eq(1)).run().unwrap();
    let grant = Grant::new("photo", &Right::ALL).rule("owner = @user.id");
    let caller = Caller { id: "1".into(), name: "ann".into(), groups: Vec::new() };
    let rights = Rights::new(stand.registry(), Some(caller), &[grant]).unwrap();
    let (ann, to) = (stand.with_rights(rights), query());
    let found = ann.list::<Photo>().nearest(Photo::EMBEDDING, &to, Metric::Cosine).run().unwrap();
    assert_eq!(ids(&found), sorted(&own, &to, Metric::Cosine));
    let none = Rights::new(stand.registry(), None, &[]).unwrap();
    let anonymous = stand.with_rights(none);
    let list = anonymous.list::<Photo>().nearest(Photo::EMBEDDING, &to, Metric::Cosine);
    refused(list.run(), ErrorKind::Unauthenticated);
}

/// Vectors with another length or numbers that are not finite, and orders that do not fit, are
/// refused with the field.
pub fn a_bad_vector_is_refused(subject: &Subject) {
    let stand = Stand::open(subject, models);
    let mut numbers = [0.0; DIMENSIONS];
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        numbers[3] = bad;
        let photo = Photo { embedding: Some(Vector::from(numbers)), ..Photo::default() };
        blamed(stand.insert(&photo).run(), ErrorKind::Invalid, "embedding", "type");
        let list = stand.list::<Photo>();
        let near = list.nearest(Photo::EMBEDDING, &Vector::from(numbers), Metric::L2);
        refused(near.run(), ErrorKind::Invalid);
    }
    let table = stand.table("photo").unwrap();
    for text in [
        "near(embedding,[1,2])",
        "near(title,[1,2])",
        "near(embedding)",
        "near(embedding,[1,2],l3)",
        "near(embedding,'AAA')",
        "near(embedding,[",
        "near(embedding,'",
        "near(",
        "near(é,]",
        "near(vector,[1])",
    ] {
        let error = parse_ranking(&table, text, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
    }
}

register!($ vectors_promises vectors:
    the_nearest_rows_are_exact,
    the_nearest_rows_are_those_that_may_be_read,
    a_bad_vector_is_refused,
);
