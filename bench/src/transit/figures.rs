//! The figures of both programs, and the table of their medians.

use super::users::UserStats;
use comfy_table::Table;
use std::collections::BTreeMap;

/// The figures of one program, with one value per round.
#[derive(Default)]
pub(crate) struct Figures {
    /// Seconds from its start until it accepts connections.
    pub(crate) load_s: Vec<f64>,
    /// CPU time of all its threads until then.
    pub(crate) load_cpu_s: Vec<f64>,
    pub(crate) loaded_mb: Vec<f64>,
    /// By connections.
    pub(crate) under_load: BTreeMap<u32, Vec<Loaded>>,
    /// Resident memory ten seconds after the load.
    pub(crate) rested_mb: Vec<f64>,
    /// The virtual users' requests, and the peak memory until then.
    pub(crate) users: UserStats,
    pub(crate) most_with_users_mb: f64,
}

/// One run under load.
pub(crate) struct Loaded {
    pub(crate) requests_per_s: f64,
    /// The server's CPU time per request.
    pub(crate) cpu_us: f64,
    /// Peak resident memory.
    pub(crate) most_mb: f64,
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the table of both programs with ratios and targets.
pub(crate) fn table(ours: &Figures, plain: &Figures, connections: &[u32], users: u32) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["", "marmota", "plain", "ratio", "target"]);
    let mut row = |name: String, of: &dyn Fn(&Figures) -> f64, digits: usize, target: &str| {
        let (ours, plain) = (of(ours), of(plain));
        let number = |value: f64| format!("{value:.digits$}");
        let is_rate = name.starts_with("requests");
        let ratio = if is_rate { ours / plain } else { plain / ours };
        // No ratio if both values are 0.
        let ratio = if ratio.is_finite() { format!("{ratio:.2}") } else { String::new() };
        table.add_row([name, number(ours), number(plain), ratio, target.to_owned()]);
    };
    row("start to listening, s".into(), &|f| median(f.load_s.clone()), 3, "≥ 4");
    row("CPU until then, s".into(), &|f| median(f.load_cpu_s.clone()), 2, "");
    row("memory loaded, MB".into(), &|f| median(f.loaded_mb.clone()), 1, "≤ 40");
    for &connections in connections {
        let name = |what: &str| format!("{what}, {connections} connections");
        let of = |get: fn(&Loaded) -> f64| {
            move |f: &Figures| median(f.under_load.get(&connections).into_iter().flatten().map(get))
        };
        row(name("requests per second"), &of(|l| l.requests_per_s), 0, "≥ 2.5");
        row(name("CPU per request, us"), &of(|l| l.cpu_us), 0, "≥ 8");
        row(name("peak memory, MB"), &of(|l| l.most_mb), 1, "≤ 60");
    }
    row("memory 10 s after, MB".into(), &|f| median(f.rested_mb.clone()), 1, "≤ 1.2 × loaded");
    if ours.users.requests > 0 {
        let name = |what: &str| format!("{what}, {users} users");
        row(name("requests"), &|f| f.users.requests as f64, 0, "> 1");
        row(name("failed"), &|f| f.users.failures.len() as f64, 0, "0");
        row(name("95th percentile, ms"), &|f| f.users.wait_ms(95), 0, "");
        row(name("longest, ms"), &|f| f.users.wait_ms(100), 0, "");
        row(name("peak memory, MB"), &|f| f.most_with_users_mb, 1, "≤ 60");
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_above_one_are_better() {
        let figures = |load, rate| Figures {
            load_s: vec![9.0, load, 0.0],
            under_load: [(16, vec![Loaded { requests_per_s: rate, cpu_us: 5.0, most_mb: 1.0 }])]
                .into(),
            ..Figures::default()
        };
        let table = table(&figures(0.5, 300.0), &figures(2.0, 100.0), &[16], 50);
        let cells = |name: &str| -> Vec<String> {
            let row = table.lines().find(|line| line.contains(name)).unwrap();
            row.split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        assert_eq!(cells("listening")[2..5], ["0.500", "2.000", "4.00"]);
        assert_eq!(cells("requests per second")[2..5], ["300", "100", "3.00"]);
    }
}
