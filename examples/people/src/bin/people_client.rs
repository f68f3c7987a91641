//! Inserts people and compares them with the rows read back: `people_client [URL] [THREADS]
//! [CLIENTS] [ROWS]`.
use marmota::prelude::*;
use people::Person;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let url = words.get(1).map_or("http://127.0.0.1:8888/api", |url| url);
    let number = |at: usize, none: usize| words.get(at).map_or(Ok(none), |word| word.parse());
    let (threads, clients, rows) = (number(2, 50)?, number(3, 1)?, number(4, 10_000)?);
    let began = std::time::Instant::now();
    let ids = std::thread::scope(|scope| {
        let work = |thread| move || carry_out(url, clients, (thread..rows).step_by(threads));
        let all: Vec<_> = (0..threads).map(|thread| scope.spawn(work(thread))).collect();
        all.into_iter().map(|one| one.join().expect("no panic")).collect::<Result<Vec<_>>>()
    })?
    .concat();
    let rate = 2.0 * rows as f64 / began.elapsed().as_secs_f64();
    let lost = rows - ids.iter().collect::<std::collections::HashSet<_>>().len();
    println!("{rows} rows, {lost} lost; {} concurrent clients; {rate:.0}/s", threads * clients);
    if lost == 0 { Ok(()) } else { Err("rows were lost".into()) }
}

fn carry_out(url: &str, clients: usize, rows: impl Iterator<Item = usize>) -> Result<Vec<i64>> {
    let open = |_| marmota::open(url)?.model::<Person>().open();
    let clients = (0..clients).map(open).collect::<Result<Vec<Store>>>()?;
    let each = rows.zip(clients.iter().cycle()).map(|(row, client)| {
        let (first_name, last_name) = (format!("First {row}"), format!("Last {row}"));
        let mut one = Person { id: 0, first_name, last_name, born: row as i32, died: None };
        one.id = client.insert(&one).run()?;
        assert_eq!(client.get::<Person>(one.id).run()?, one);
        Ok(one.id)
    });
    each.collect()
}
