//! Tests of recordings, plots and the page.

use crate::support::{Seen, at, good};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn done(dir: &Path, line: &str) -> String {
    good(dir, line).out
}

const WORKLOAD: &str =
    "--load 8 --jobs 250 --cluster 4x4 --migration-s 60 --checkpoint-s 20 --launch-s 40";

fn rows(path: PathBuf) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().skip(1);
    lines
        .map(|l| l.split(',').map(str::to_owned).collect())
        .collect()
}

fn number(row: &[String], column: usize) -> f64 {
    row[column].parse().unwrap()
}

/// Assignments and timeline add up to the running times of the jobs.
#[test]
fn records_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let line = format!("simulate -s las {WORKLOAD} --output-dir r --assignments");
    done(d, &line);
    let jobs = rows(d.join("r/las/jobs.csv"));
    // attained_s x gpus; all jobs ask for the GPUs that they get.
    let ran: f64 = jobs.iter().map(|r| number(r, 7) * number(r, 8)).sum();
    let mut per_job = vec![0.0; jobs.len()];
    let assignments = rows(d.join("r/las/assignments.csv"));
    assert!(assignments.len() > 2 * jobs.len(), "{}", assignments.len());
    for a in &assignments {
        assert!((3..6).all(|column| number(a, column) <= number(a, column + 1)));
        per_job[number(a, 1) as usize] += number(a, 5) - number(a, 4);
    }
    for (row, sum) in jobs.iter().zip(&per_job) {
        assert!((number(row, 7) - sum).abs() < 1e-6, "{row:?}");
    }
    let timeline = rows(d.join("r/las/timeline.csv"));
    let busy: f64 = timeline.iter().map(|r| number(r, 1) * number(r, 2)).sum();
    assert!((busy - ran).abs() < 1e-6 * ran, "{busy} {ran}");
    // Queueing according to the timeline: in the system without GPUs.
    assert!(timeline.len() > 1024 && timeline.len() <= 2048);
    let within = |r: &Vec<String>| number(r, 2) <= 16.0 && number(r, 3) == 16.0;
    assert!(timeline.iter().all(within));
    let summary = fs::read_to_string(d.join("r/las/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let share = busy / 16.0 / summary["makespan_s"].as_f64().unwrap();
    assert!((share - summary["utilisation"].as_f64().unwrap()).abs() < 1e-9);
}

#[test]
fn rounds_that_are_skipped_leave_no_trace_in_records() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let line = format!("simulate -s fifo {WORKLOAD} --assignments");
    done(d, &format!("{line} --output-dir a"));
    done(d, &format!("{line} --output-dir b --visit-every-round"));
    for file in ["timeline.csv", "assignments.csv"] {
        let read = |dir: &str| fs::read(d.join(dir).join("fifo").join(file)).unwrap();
        assert!(read("a") == read("b"), "{file}");
    }
}

#[test]
fn one_command_gives_a_table_and_its_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let line = format!("compare fifo las {WORKLOAD} --output-dir r --plots --fairness --why");
    let out = done(d, &line);
    assert!(out.starts_with("scheduler"));
    let names = [
        "avg-jct",
        "jct-cdf",
        "queueing-cdf",
        "fairness-cdf",
        "utilisation",
        "queue-length",
        "waits",
        "gantt-fifo",
        "gantt-las",
    ];
    for name in names {
        let svg = fs::read_to_string(d.join(format!("r/plots/{name}.svg"))).unwrap();
        let whole = svg.starts_with("<svg") && svg.ends_with("</svg>\n");
        assert!(whole, "{name}");
        assert!(svg.contains("las") || name == "gantt-fifo", "{name}");
    }
    // Plotting again from the files gives the same plots.
    let listed = done(d, "plot r --output-dir again");
    assert_eq!(listed.lines().count(), names.len(), "{listed}");
    for name in names {
        let read = |dir: &str| fs::read(d.join(dir).join(format!("{name}.svg"))).unwrap();
        assert!(read("r/plots") == read("again"), "{name}");
    }
    let one = done(d, "plot r --only jct-cdf --output-dir one");
    let begin = "one/jct-cdf.svg  Job completion time";
    assert!(one.starts_with(begin), "{one}");
    // A plot of two folders distinguishes their schedulers.
    fs::rename(d.join("again"), d.join("old")).unwrap();
    done(d, &format!("simulate -s las {WORKLOAD} --output-dir s"));
    done(d, "plot r s --output-dir both");
    let svg = fs::read_to_string(d.join("both/jct-cdf.svg")).unwrap();
    for name in [">fifo<", ">las (r)<", ">las (s)<"] {
        assert!(svg.contains(name), "{name}");
    }
    // A later run without a record does not show the record of an earlier one.
    let line = format!("compare fifo las {WORKLOAD} --output-dir r --force");
    done(d, &line);
    assert!(!done(d, "plot r --output-dir late").contains("gantt"));
}

#[test]
fn costs_services_and_evictions_show_where_they_occur() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let all = "submit_s,gpus,duration_s,need,class,gpu_share\n\
               0,1,7200,0:1;3600:3/7200,,\n0,1,6000,,spot:6000,\n0,2,6000,,,\n0,1,600,,,0.5\n";
    fs::write(d.join("all.csv"), all).unwrap();
    let none = "submit_s,gpus,duration_s\n0,1,600\n0,2,900\n";
    fs::write(d.join("none.csv"), none).unwrap();
    // Words of the table, columns of jobs, figures, and pictures with words of the page.
    let words = ["cost", "needed", "lacking", "evicted", "broken"];
    let columns = ["needed_gpu_s", "lacking_gpu_s", "broken", "gpu_share"];
    let figures = ["\"rent\"", "\"services\"", "\"evictions\""];
    let pictures = ["cost", "services", "evictions"];
    let titles = [
        "Cost of the nodes",
        "GPU time that services needed",
        "Evictions",
    ];
    for (name, cluster, occurs) in [("all", "1x4=2.5", true), ("none", "1x4", false)] {
        let line = format!("compare fifo serving --trace {name}.csv --cluster {cluster}");
        let table = done(d, &format!("{line} --output-dir {name} --plots --report"));
        let read = |file: &str| fs::read_to_string(d.join(name).join(file)).unwrap();
        let has =
            |text: &str, words: &[&str]| words.iter().all(|word| text.contains(word) == occurs);
        assert!(has(&table, &words), "{table}");
        let jobs = read("serving/jobs.csv");
        let heading = jobs.lines().next().unwrap();
        assert!(has(heading, &columns), "{heading}");
        assert!(has(&read("serving/summary.json"), &figures), "{name}");
        let assignments = read("serving/assignments.csv");
        let heading = assignments.lines().next().unwrap();
        assert!(
            has(heading, &["share,memory_share,overlaps,config"]),
            "{heading}"
        );
        assert_eq!(assignments.contains(",0.5,,0,\n"), occurs);
        assert!(has(&read("serving/timeline.csv"), &["used_gpus"]), "{name}");
        for picture in pictures {
            let path = d.join(format!("{name}/plots/{picture}.svg"));
            assert_eq!(path.exists(), occurs, "{picture}");
        }
        assert!(has(&read("report.html"), &titles), "{name}");
    }
    let bars = fs::read_to_string(d.join("all/plots/services.svg")).unwrap();
    assert!(bars.contains(">lacked<") && bars.contains(">serving<"));
}

#[test]
fn shares_configs_and_offers_are_in_the_records() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let plans = "attributes.params_b,attributes.plan";
    let jobs = format!(
        "submit_s,gpus,duration_s,gpu_share,{plans}\n0,1,600,,,\n0,1,3600,0.25,,\n900,1,600,,7,\n"
    );
    fs::write(d.join("jobs.csv"), jobs).unwrap();
    done(
        d,
        "simulate fifo --trace jobs.csv --cluster 1x3,+2x8:a100=9.5 --assignments --output-dir r",
    );
    let read = |file: &str| fs::read_to_string(d.join("r").join(file)).unwrap();
    // The first row was written before the first share.
    assert_eq!(
        read("fifo/assignments.csv"),
        "job_id,job,launch,placed_s,start_s,stop_s,end_s,gpus,why,share,memory_share,overlaps,config\n\
         0,0,1,0,30,900,900,0,completed,1,,0,\n\
         2,2,1,900,930,1800,1800,0,completed,1,,0,\n\
         1,1,1,0,30,3900,3900,1,completed,0.25,,0,\n"
    );
    let timeline = read("fifo/timeline.csv");
    assert!(
        timeline
            .lines()
            .any(|row| row.starts_with("64,") && row.ends_with(",1.25")),
        "{timeline}"
    );
    assert!(read("manifest.json").contains(
        "\"offers\": [\n    {\n      \"gpu_type\": \"a100\",\n      \"gpus\": 8,\n      \"most\": 2,"
    ));
}

#[test]
fn twenty_schedulers_are_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let names: Vec<String> = (1..=20).map(|i| format!("las{{guard_h={i}}}")).collect();
    let schedulers = names.join(" ");
    let line =
        format!("compare {schedulers} --load 8 --jobs 60 --cluster 2x4 --output-dir r --plots");
    done(d, &line);
    let svg = fs::read_to_string(d.join("r/plots/queue-length.svg")).unwrap();
    assert_eq!(svg.matches("<use ").count(), 19);
    let svg = fs::read_to_string(d.join("r/plots/jct-cdf.svg")).unwrap();
    assert!(names.iter().all(|n| svg.contains(&format!(">{n}</text>"))));
}

#[test]
fn plot_option_draws_one_picture_without_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let line = format!("compare fifo las {WORKLOAD}");
    done(d, &format!("{line} --output-dir r --plots"));
    let drawn = |name: &str| fs::read(d.join(format!("r/plots/{name}.svg"))).unwrap();
    let plots = "--plot a.svg --plot utilisation=b.svg --plot gantt-las=c.svg";
    let err = good(d, &format!("{line} {plots}")).err;
    let pictures = ", picture in a.svg, picture in b.svg, picture in c.svg";
    assert!(err.contains(pictures), "{err}");
    for (file, name) in [("a", "jct-cdf"), ("b", "utilisation"), ("c", "gantt-las")] {
        let one = fs::read(d.join(format!("{file}.svg"))).unwrap();
        assert!(one == drawn(name), "{name}");
    }
    // Nothing else is left behind, and the record of results names no picture.
    assert_eq!(fs::read_dir(d).unwrap().count(), 4);
    let plain = fs::read(d.join("r/manifest.json")).unwrap();
    done(d, &format!("{line} --output-dir s --plots --plot a.svg"));
    assert!(fs::read(d.join("s/manifest.json")).unwrap() == plain);
}

#[test]
fn plot_option_extension_selects_the_format() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    for (file, start) in [("a.png", &b"\x89PNG"[..]), ("a.pdf", b"%PDF")] {
        let line = format!("simulate las --load 8 --jobs 30 --plot {file}");
        let Seen { code, err, .. } = at(d, line.split(' '));
        match cfg!(feature = "png") {
            true => assert!(fs::read(d.join(file)).unwrap().starts_with(start)),
            false => assert!(code == Some(2) && err.contains("--features png"), "{err}"),
        }
    }
}

/// Returns an installed browser, if any.
fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|b| {
            Command::new(b)
                .arg("--version")
                .output()
                .is_ok_and(|o| o.status.success())
        })
}

/// Returns the page after its script has run in the browser, in a window of this width.
fn dom(browser: &str, profile: &Path, page: &Path, width: u32) -> String {
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Creates a trace of many jobs that simulates fast.
fn large_trace(path: &Path, jobs: u32) {
    let mut text = String::from("job_id,submit_s,gpus,duration_s\n");
    for i in 0..jobs {
        let (gpus, duration) = ([1, 2, 4][(i % 3) as usize], 100 + i * 7919 % 2000);
        text.push_str(&format!("<job & {i}>,{},{gpus},{duration}\n", i * 40));
    }
    fs::write(path, text).unwrap();
}

#[test]
fn page_of_many_jobs_is_small_and_names_omissions() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    large_trace(&d.join("jobs.csv"), 100_000);
    let line = "compare fifo sjf --trace jobs.csv --cluster 16x4 --output-dir r --assignments";
    done(d, line);
    assert_eq!(done(d, "report r"), "r/report.html\n");
    let page = fs::read_to_string(d.join("r/report.html")).unwrap();
    assert!(page.len() <= 1_000_000, "{}", page.len());
    assert!(
        page.contains("jobs of a scheduler, an even sample by number and the 100 with the longest")
    );
    assert!(
        page.contains("stays on GPUs, the ") && page.contains(" with the most GPU time are bars")
    );
    // The page has no external resources, and names cannot inject markup.
    assert_eq!(
        page.matches("http").count(),
        page.matches("http://www.w3.org/2000/svg").count() + 1
    );
    assert!(page.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'"));
    assert!(!page.contains("<job"));
}

/// Script of a user session: sorts, filters, zooms, selects a job, switches to the dark theme.
const READER: &str = r##"
const seen = {};
const click = (e) => e.dispatchEvent(new MouseEvent("click", { bubbles: true }));
const cells = (row) => [...row.cells].map((c) => c.textContent);
seen.runs = data.runs.map((r) => r.name);
const header = document.querySelectorAll("#summary th button");
click(header[0]); click(header[0]);
seen.sorted = [...document.querySelectorAll("#summary tbody tr")].map((r) => r.cells[0].textContent);
seen.jobs = $("where").textContent;
const byJct = () => [...document.querySelectorAll("#jobs th button")].find((b) => b.textContent.startsWith("JCT ("));
click(byJct());
click(byJct());
seen.longest = cells(document.querySelector("#jobs tbody tr"));
$("find").value = "17"; $("find").oninput();
seen.found = $("where").textContent;
click(document.querySelector("#jobs tbody tr"));
seen.marked = $("window").textContent;
click($("in"));
seen.zoomed = gantt.to - gantt.from < bounds().end / 2;
const box = canvas.getBoundingClientRect(), p = place(), s = data.runs[gantt.run].spans;
const bar = s.job.indexOf(17);
gantt.from = s.start[bar]; gantt.to = gantt.from + s.length[bar]; drawGantt();
canvas.onpointermove({ clientX: box.left + p.x(gantt.from + s.length[bar] / 2), clientY: box.top + p.y(s.first[bar] + 0.5) });
seen.tip = $("tip").textContent.split("\n")[0];
setDark(false); click($("theme"));
seen.dark = document.body.classList.contains("dark");
const pixel = canvas.getContext("2d").getImageData(canvas.width - 3, canvas.height - 3, 1, 1).data;
seen.canvas = pixel[0] < 60;
// The page has the width of the window; only cards scroll.
const root = document.documentElement, wide = [...document.querySelectorAll(".wide")];
seen.width = innerWidth;
seen.cut = root.scrollWidth > root.clientWidth;
seen.scrolling = wide.filter((card) => card.scrollWidth > card.clientWidth).length;
seen.reachable = wide.every((card) => { card.scrollLeft = 1e6; return card.scrollLeft + card.clientWidth >= card.scrollWidth - 1; });
seen.outside = [...document.querySelectorAll("svg, canvas, h1, p, dd, nav a")]
  .filter((e) => e.getBoundingClientRect().right > root.clientWidth).length;
seen.units = [...new Set([...document.querySelectorAll("th")].map((th) => /\((s|minutes|hours|days)\)/.exec(th.textContent)?.[1]).filter(Boolean))];
seen.unit = UNIT.name;
seen.left = LEFT;
const out = document.createElement("pre");
out.id = "seen"; out.textContent = JSON.stringify(seen); document.body.append(out);
"##;

#[test]
fn a_reader_can_use_the_page() {
    let Some(browser) = browser() else {
        println!("skipped: no Chromium here to open the page with");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let workload = WORKLOAD.replace("4x4", "2x4:v100,2x4:k80");
    let line = format!("compare fifo las {workload} --output-dir r --assignments --why --fairness");
    done(d, &line);
    done(d, "report r --output page.html");
    let page = fs::read_to_string(d.join("page.html")).unwrap();
    let page = page.replace("</body>", &format!("<script>{READER}</script></body>"));
    fs::write(d.join("page.html"), page).unwrap();
    for width in [1280, 500] {
        let profile = d.join(format!("profile-{width}"));
        let dom = dom(browser, &profile, &d.join("page.html"), width);
        read_by(&dom, width, d);
    }
}

/// Checks what a user saw in a window of this width.
fn read_by(dom: &str, width: u32, d: &Path) {
    assert!(
        dom.contains("data-ready=\"yes\""),
        "the script of the page failed"
    );
    let seen = dom
        .split("<pre id=\"seen\">")
        .nth(1)
        .expect("the reader came to the end");
    let seen = seen.split("</pre>").next().unwrap();
    let seen: serde_json::Value = serde_json::from_str(&seen.replace("&gt;", ">")).unwrap();
    assert_eq!(seen["runs"], serde_json::json!(["fifo", "las"]));
    assert_eq!(seen["sorted"], serde_json::json!(["las", "fifo"]));
    assert_eq!(seen["jobs"], "250 jobs, page 1 of 3");
    let jobs = rows(d.join("r/fifo/jobs.csv"));
    let by_jct = |a: &&Vec<String>, b: &&Vec<String>| number(a, 5).total_cmp(&number(b, 5));
    let longest = jobs.iter().max_by(by_jct).unwrap();
    assert_eq!(seen["longest"][0], longest[0].as_str());
    assert_eq!(seen["found"], "1 job, page 1 of 1");
    let text = |what: &str| seen[what].as_str().unwrap();
    assert!(text("marked").ends_with("job 17 is marked"));
    assert_eq!(text("tip").split(',').next(), Some("job 17"));
    for what in ["zoomed", "dark", "canvas", "reachable"] {
        assert_eq!(seen[what], true, "{what}");
    }
    assert_eq!(
        (&seen["width"], &seen["cut"]),
        (&width.into(), &false.into())
    );
    assert_eq!(seen["outside"], 0, "elements outside a window of {width}");
    // In a narrow window, tables scroll in their cards.
    assert!(
        width > 500 || seen["scrolling"].as_u64() > Some(1),
        "{seen}"
    );
    assert_eq!(seen["units"], serde_json::json!([seen["unit"]]));
    // The longest name of a node, `node 3 (v100)`, has room.
    assert!(seen["left"].as_f64() > Some(80.0), "{seen}");
}
