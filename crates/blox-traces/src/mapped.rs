//! Reads a table with a [`ColumnMap`].

use super::file::Clock;
use super::map::{ColumnMap, Field, How, Mapping, attribute};
use super::moment::{parse_date, parse_elapsed};
use super::rows::{NoJob, Opened, jobs, makes_sense, sensible};
use super::source::Source;
use super::table::{Column, SharedNames, Table};
use blox_core::SortedMap;
use blox_core::{Deadline, Extras, GpuCount, JobSpec, Name, Seconds, Share, Time};
use blox_workloads::{Dropped, NoticeKind, Notices, WorkloadError};
use std::sync::Arc;

/// A row of a table, with the meaning of its columns.
struct MappedRow<'a> {
    table: &'a Table,
    map: &'a ColumnMap,
    /// Columns in the order of the map.
    columns: &'a [Column],
    names: &'a mut SharedNames,
}

pub(crate) fn open_rows(map: &Arc<ColumnMap>, source: &Source, notices: &mut Notices) -> Opened {
    let mut table = Table::open(source)?;
    table.leave_attributes(|name, column| {
        let takes = |m: &Mapping| m.column == column || m.attribute.as_ref() == Some(name);
        map.columns.iter().any(takes)
    });
    let columns: Vec<_> = map.columns.iter().map(|m| m.column.as_str()).collect();
    let found = table.require_all(&columns)?;
    table.note_unmapped(&columns, notices);
    let check = match map.clock() {
        Clock::Kept => sensible,
        _ => makes_sense,
    };
    let (map, mut names) = (Arc::clone(map), SharedNames::default());
    let job = move |table: &Table, notices: &mut Notices| {
        let mut row = MappedRow {
            table,
            map: &map,
            columns: &found,
            names: &mut names,
        };
        row.job(notices)
    };
    jobs(table, check, job)
}

impl MappedRow<'_> {
    fn job(&mut self, notices: &mut Notices) -> Result<JobSpec, NoJob> {
        let gpus = self.number(Field::Gpus)?.unwrap_or(0.0);
        if gpus == 0.0 {
            return Err(Dropped::NoGpus.into());
        }
        let duration = self.duration()?;
        let submit = self.number(Field::Submit)?;
        let submit = submit.ok_or_else(|| self.wrong(Field::Submit, "a moment"))?;
        let (whole, share) = match Share::of(gpus) {
            Some(share) => (1.0, share),
            None => (gpus.ceil(), Share::WHOLE),
        };
        if gpus > 0.0 && gpus < 1.0 {
            if share == Share::WHOLE {
                let expected = "a whole number of GPUs, or a part of one from 1/21000";
                return Err(self.wrong(Field::Gpus, expected).into());
            }
        } else if whole != gpus {
            let counts = |m: &Mapping| m.unit.how == How::Number(1.0, 1.0);
            if self.map.get(Field::Gpus).is_some_and(counts) {
                return Err(self
                    .wrong(Field::Gpus, "a whole number of GPUs, or a part of one")
                    .into());
            }
            notices.add(NoticeKind::PartOfGpu, self.table.line());
        }
        if whole > f64::from(u32::MAX) {
            return Err(self.wrong(Field::Gpus, "fewer GPUs").into());
        }
        let mut job = JobSpec::new(
            Time::new(submit),
            GpuCount(whole as u32),
            Seconds::new(duration),
        );
        job.name = self.cell(Field::JobId).map(|(_, text)| Name::from(text));
        job.user = self.name(Field::User);
        job.virtual_cluster = self.name(Field::VirtualCluster);
        job.priority = self
            .parse(Field::Priority, "a whole number of 32 bits")?
            .unwrap_or(0);
        let deadline = |at| Deadline {
            at: Time::new(at),
            value: 1.0,
        };
        let extras = Extras {
            model: self.name(Field::Model),
            group: self.name(Field::Group),
            share,
            batch_size: self.parse(Field::BatchSize, "a whole number of at least 0")?,
            cpus: self.number(Field::Cpus)?.unwrap_or(0.0),
            memory_gib: self.number(Field::Memory)?.unwrap_or(0.0),
            user_estimate: self.number(Field::UserEstimate)?.map(Seconds::new),
            deadlines: Vec::from_iter(self.number(Field::Deadline)?.map(deadline)),
            attributes: self.attributes(),
            ..Extras::default()
        };
        if extras != Extras::default() {
            job = job.with_extras(extras);
        }
        Ok(job)
    }

    fn attributes(&self) -> SortedMap<Name, serde_json::Value> {
        let named = self.map.columns.iter().zip(self.columns);
        let named = named.filter_map(|(m, column)| Some((m.attribute.as_ref()?, *column)));
        let filled = named.filter(|(_, column)| !self.table.is_null(*column));
        filled
            .map(|(name, column)| (name.clone(), attribute(self.table.text(column).trim())))
            .collect()
    }

    fn duration(&self) -> Result<f64, NoJob> {
        if self.map.get(Field::Duration).is_some() {
            return Ok(self.number(Field::Duration)?.ok_or(Dropped::NoTimes)?);
        }
        let start = self.number(Field::Start)?.ok_or(Dropped::NeverStarted)?;
        let end = self.number(Field::End)?.ok_or(Dropped::StillRunning)?;
        if end < start {
            let expected = "a moment not before the start";
            return Err(self.wrong(Field::End, expected).into());
        }
        Ok(end - start)
    }

    /// Returns the column of a field that is mapped.
    fn column(&self, field: Field) -> Option<Column> {
        let at = self.map.columns.iter().position(|m| m.field == field)?;
        self.columns.get(at).copied()
    }

    /// Returns the cell of a field that is mapped and holds a value.
    fn cell(&self, field: Field) -> Option<(Column, &str)> {
        let column = self.column(field)?;
        let text = self.table.text(column).trim();
        (!self.table.is_null(column)).then_some((column, text))
    }

    fn name(&mut self, field: Field) -> Option<Name> {
        let (column, _) = self.cell(field)?;
        self.names.of_cell(self.table.text(column))
    }

    fn parse<T: std::str::FromStr>(
        &self,
        field: Field,
        expected: &str,
    ) -> Result<Option<T>, WorkloadError> {
        let Some((column, text)) = self.cell(field) else {
            return Ok(None);
        };
        let value = text.parse().map(Some);
        value.map_err(|_| self.table.wrong(column, expected))
    }

    /// Parses a cell in the unit of the toolkit: seconds, GiB, whole GPUs and cores.
    fn number(&self, field: Field) -> Result<Option<f64>, WorkloadError> {
        let (Some((column, text)), Some(mapping)) = (self.cell(field), self.map.get(field)) else {
            return Ok(None);
        };
        let moment = matches!(
            field,
            Field::Submit | Field::Start | Field::End | Field::Deadline
        );
        let plain = || text.parse::<f64>().ok().filter(|x| x.is_finite());
        let positive = |x: &f64| moment || *x >= 0.0;
        let (value, expected) = match mapping.unit.how {
            How::Number(factor, divisor) => (
                plain().filter(positive).map(|x| x * factor / divisor),
                match (moment, mapping.unit.name) {
                    (true, unit) => format!("a number ({unit}); dates are mapped as COLUMN:date"),
                    (false, "") => "a number of at least 0".to_owned(),
                    (false, unit) => format!("a number of at least 0 ({unit})"),
                },
            ),
            How::Epoch(divisor) => (
                plain().map(|x| x / divisor),
                format!("a number ({})", mapping.unit.name),
            ),
            How::Date => (
                parse_date(text),
                "a date such as 2017-10-09 07:01:55".to_owned(),
            ),
            How::Clock => (
                parse_elapsed(text),
                "a length such as 1-02:03:04 or 02:03:04".to_owned(),
            ),
        };
        match value.filter(|x| x.is_finite()) {
            Some(value) => Ok(Some(value)),
            None => Err(self.table.wrong(column, &expected)),
        }
    }

    fn wrong(&self, field: Field, expected: &str) -> WorkloadError {
        match self.column(field) {
            Some(column) => self.table.wrong(column, expected),
            None => WorkloadError::line(self.table.path(), self.table.line(), expected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, Trace};
    use blox_workloads::collect;

    fn read(map: &str, text: &str) -> Result<Trace, WorkloadError> {
        let options = ReadOptions {
            format: None,
            columns: Some(map.parse().unwrap()),
        };
        Trace::of_bytes("t.csv", text.as_bytes(), &options)
    }

    #[test]
    fn columns_are_read_by_the_map() {
        let map = "job_id=id,submit=when:date,gpus=parts:percent,duration=minutes:min,user=owner,\
                   memory=mem:mib,cpus=cpu:milli,user_estimate=limit:clock,deadline=due:date,\
                   priority=prio,batch_size=batch,model=net,group=team,virtual_cluster=queue";
        let text = "id;when;parts;minutes;owner;mem;cpu;limit;due;prio;batch;net;team;queue;other\n\
                    a;2024-01-01 00:01:00;250;1.5;ada;2048;1500;1-00:00:00;2024-01-01 01:01:00;-3;64;bert;t;q;x\n\
                    b;2024-01-01 00:00:00;100;2;NaN;;;;;;;;;;x\n\
                    c;2024-01-01 00:00:01;0;2;;;;;;;;;;;x\n\
                    d;2024-01-01 00:00:02;100;n/a;;;;;;;;;;;x\n";
        let trace = read(map, text).unwrap();
        let notices: Vec<_> = trace.notices().iter().map(|n| n.to_string()).collect();
        assert_eq!(
            notices,
            [
                "column `other`: not mapped, ignored; attributes.NAME=COLUMN keeps it (once, on line 1)",
                "asks for parts of GPUs: rounded up to whole ones (once, on line 2)",
                "not in order of submission: sorted (once, on line 3)",
                "dropped: asks for no GPU (once, on line 4)",
                "dropped: the log does not say when it ran (once, on line 5)",
            ]
        );
        assert_eq!(trace.wall_clock_origin(), Some(1_704_067_200.0));
        let jobs = collect(&mut trace.jobs().unwrap()).unwrap();
        assert_eq!(
            (jobs[0].submit.secs(), jobs[0].user.as_deref()),
            (0.0, None)
        );
        let a = &jobs[1];
        assert_eq!(
            (a.submit.secs(), a.gpus.get(), a.duration().secs()),
            (60.0, 3, 90.0)
        );
        assert_eq!((a.priority, a.user.as_deref()), (-3, Some("ada")));
        assert_eq!(a.virtual_cluster.as_deref(), Some("q"));
        let extras = a.extras();
        assert_eq!(
            (extras.cpus, extras.memory_gib, extras.batch_size),
            (1.5, 2.0, Some(64))
        );
        assert_eq!(extras.user_estimate, Some(Seconds::new(86_400.0)));
        assert_eq!(extras.deadlines[0].at, Time::new(3660.0));
        assert_eq!(extras.model.as_deref(), Some("bert"));
        assert_eq!(extras.group.as_deref(), Some("t"));
    }

    #[test]
    fn less_than_one_gpu_is_a_part_of_it() {
        for (map, cell) in [("g", "0.25"), ("g:percent", "25"), ("g:milli", "250")] {
            let map = format!("submit=s,gpus={map},duration=d");
            let trace = read(&map, &format!("s;g;d\n0;{cell};9\n")).unwrap();
            assert!(trace.notices().is_empty());
            let job = collect(&mut trace.jobs().unwrap()).unwrap().remove(0);
            assert_eq!(
                (job.gpus, Some(job.extras().share)),
                (GpuCount(1), Share::parts(1, 4))
            );
        }
        let wrong = |cell: &str| {
            let trace = read(
                "submit=s,gpus=g,duration=d",
                &format!("s;g;d\n0;{cell};9\n"),
            );
            trace.unwrap_err().to_string()
        };
        assert_eq!(
            wrong("1e-9"),
            "t.csv:2: g is `1e-9`, expected a whole number of GPUs, or a part of one from 1/21000"
        );
        assert_eq!(
            wrong("1.5"),
            "t.csv:2: g is `1.5`, expected a whole number of GPUs, or a part of one"
        );
    }

    #[test]
    fn own_columns_reach_policies_as_attributes() {
        let map = "submit=s,gpus=g,duration=d,attributes.class=c,attributes.level=\"l, x\"";
        let text = "s;g;d;c;l, x\n0;1;9;bert;2.5\n1;1;9;none;\n2;1;9;007;true\n";
        let trace = read(map, text).unwrap();
        assert!(trace.notices().is_empty());
        let jobs = collect(&mut trace.jobs().unwrap()).unwrap();
        let of = |job: usize, name: &str| jobs[job].attribute(name).cloned();
        assert_eq!(of(0, "class"), Some("bert".into()));
        assert_eq!(of(0, "level"), Some(2.5.into()));
        assert_eq!((of(1, "class"), of(1, "level")), (None, None));
        assert_eq!(of(2, "class"), Some("007".into()));
        assert_eq!(of(2, "level"), Some(true.into()));
        let again: ColumnMap = map.parse().unwrap();
        assert_eq!(again.to_string(), map);
    }

    #[test]
    fn numbers_are_kept_and_start_and_end_give_duration() {
        let map = "submit=s:h,gpus=g,start=b:epoch-ms,end=e:epoch-ms";
        let text = "s\tg\tb\te\n2\t1\t1000\t3500\n3\t1\t\t\n3\t1\t1000\tnone\n";
        let trace = read(map, text).unwrap();
        assert_eq!(trace.notices().dropped(), 2);
        assert_eq!(trace.wall_clock_origin(), None);
        let jobs = collect(&mut trace.jobs().unwrap()).unwrap();
        assert_eq!(
            (jobs[0].submit.secs(), jobs[0].duration().secs()),
            (7200.0, 2.5)
        );
    }

    #[test]
    fn a_bad_cell_names_line_and_column() {
        let map = "submit=when,gpus=n,duration=d,job_id=id";
        for (row, message) in [
            (
                "2024-01-01,1,1,a",
                "when is `2024-01-01`, expected a number (s); dates are mapped as COLUMN:date",
            ),
            (
                "-5,1,1,a",
                "submit is `-5`, expected a time that is not negative",
            ),
            (",1,1,a", "when is ``, expected a moment"),
            (
                "1,1.5,1,a",
                "n is `1.5`, expected a whole number of GPUs, or a part of one",
            ),
            (
                "1,-1,1,a",
                "n is `-1`, expected a number of at least 0 (count)",
            ),
            ("1,9e99,1,a", "n is `9e99`, expected fewer GPUs"),
            ("1,1,-1,a", "d is `-1`, expected a number of at least 0 (s)"),
            (
                "1,1,inf,a",
                "d is `inf`, expected a number of at least 0 (s)",
            ),
            (
                "1,1,1,a\n1,1,1,a",
                "id is `a`, expected a name of its own: line 2 has the same",
            ),
        ] {
            let error = read(map, &format!("when,n,d,id\n{row}\n"))
                .unwrap_err()
                .to_string();
            let line = 1 + row.lines().count();
            assert_eq!(error, format!("t.csv:{line}: {message}"));
        }
        assert_eq!(
            read(map, "when,gpus,d,id\n").unwrap_err().to_string(),
            "t.csv:1: the column n is missing, found the columns when, gpus, d, id"
        );
    }
}
