"""What deploy/ has for organisers: alerts, dashboard, compose files and Helm chart name only what
the programs have."""

import json
import re
import shutil
import subprocess
import sys
import unittest
import urllib.request

import harness
from etcd import Etcd
from harness import Daemon, run, wait_for
from schedulers_test import Schedulers
from swarm import Swarm

try:
    import helm_python
except ImportError:
    helm_python = None

DEPLOY = harness.SOURCE / "deploy"
CHART = DEPLOY / "helm/shoal"
LOAD = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')


def find(name):
    kept = harness.SOURCE / ".deps/bin" / name
    return str(kept) if kept.exists() else shutil.which(name)


def parse_yaml(text):
    """All documents. Debian's python3-yaml may be of another Python than this one."""
    for python in (sys.executable, "/usr/bin/python3"):
        done = subprocess.run([python, "-c", LOAD], input=text, capture_output=True, text=True,
                              check=False)
        if "No module named 'yaml'" not in done.stderr:
            break
    if done.returncode != 0:
        raise AssertionError(f"{done.stderr.strip()}\nin:\n{text}")
    return json.loads(done.stdout)


def load(path):
    [document] = parse_yaml((DEPLOY / path).read_text())
    return document


def alerts():
    return [rule for group in load("prometheus/alerts.yaml")["groups"] for rule in group["rules"]]


def panels():
    dashboard = json.loads((DEPLOY / "grafana/dashboards/shoal.json").read_text())
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions():
    """PromQL of rules and dashboard, with the texts whose labels it must have."""
    for alert in alerts():
        texts = " ".join(alert["annotations"].values())
        yield alert["expr"], set(re.findall(r"\$labels\.(\w+)", texts))
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"], set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    dashboard = json.loads((DEPLOY / "grafana/dashboards/shoal.json").read_text())
    for variable in dashboard["templating"]["list"]:
        name = re.fullmatch(r"label_values\((\w+), instance\)", variable["query"]["query"])[1]
        yield name, {"instance"}


def series_of(text):
    """Name and labels of all that /metrics has."""
    found = []
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels = re.match(r"(\w+)(?:\{(.*)\})? ", line).groups()
            found.append((name, dict(re.findall(r'(\w+)="([^"]*)"', labels or ""))))
    return found


def missing_in(expression, wanted_labels, exposed):
    """What `expression` asks for and none of `exposed`, series by job, has."""
    jobs = set(exposed)
    labels_seen = {"instance", "job"}
    for name, matchers in re.findall(r"\b(shoal_\w+)(?:\{(.*?)\})?", expression):
        asked = {label: (sign, value) for label, sign, value in MATCHER.findall(matchers)}
        job = asked.pop("job", ("=", None))[1]
        asked.pop("instance", None)
        if job is not None and job not in jobs:
            yield f"the job {job}"
        series = [labels for each in exposed if job in (None, each)
                  for known, labels in exposed[each] if known == name]
        if not series:
            yield f"{name} of {job or 'any program'}"
        for labels in series:
            labels_seen.update(labels)
        for label, (sign, value) in asked.items():
            values = {labels[label] for labels in series if label in labels}
            for one in value.split("|") if sign == "=~" else [value]:
                if one not in values:
                    yield f"{name} with {label}={one}; there are {sorted(values)}"
    for label in wanted_labels - labels_seen:
        yield f"a label {label} in {expression}"


class MonitoringTest(harness.SwarmTest):

    @unittest.skipUnless(find("promtool"), "there is no promtool")
    def test_prometheus_takes_rules_and_settings(self):
        for words in (("check", "config", "prometheus.yaml"), ("test", "rules",
                                                               "alerts_test.yaml")):
            done = subprocess.run([find("promtool"), *words], cwd=DEPLOY / "prometheus",
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_is_tested(self):
        tested = set(re.findall(r'alertname="(\w+)"',
                                (DEPLOY / "prometheus/alerts_test.yaml").read_text()))
        self.assertEqual(tested, {alert["alert"] for alert in alerts()})
        for alert in alerts():
            self.assertIn(alert["labels"]["severity"], ("critical", "warning", "info"))
            self.assertEqual(set(alert["annotations"]), {"summary", "description"})

    def start_relay(self):
        log = self.folder / "relay.log"
        relay = Daemon("shoal-relay", ["--dir", self.folder / "relay", "--listen", "127.0.0.1:0",
                                       "--advertise", "127.0.0.1", "--status-listen",
                                       "127.0.0.1:0"], log)
        self.addCleanup(relay.kill)
        return wait_for(lambda: re.search(r"http://(\S+)/\n(?s:.*)relays = \[\"(\S+)\"\]",
                                          log.read_text()), 30, "the relay says its line").groups()

    def start_standby(self):
        """The status address of a scheduler that stands by, and has seen its leader."""
        etcd = Etcd(self.folder)
        self.addCleanup(etcd.close)
        two = self.enterContext(Schedulers(self.folder / "two", etcd, count=2, stages=1))
        two.start_scheduler()
        index = 1 - two.leader()

        def seen():
            standby = (two.look(index) or {}).get("standby", {})
            return standby.get("leaderSeenSeconds") is not None
        wait_for(seen, 30, "the standby has seen the leader")
        return (two.folders[index] / "status.addr").read_text().strip()

    def test_programs_have_every_metric_that_rules_and_dashboard_name(self):
        relay, line = self.start_relay()
        swarm = Swarm(self.folder / "s", steps=100_000, checkpoint_every=5, evaluate_every=5,
                      forward="aqsgd:bits=4", backward="direct:bits=8",
                      data=harness.data(32, 10_000), network={"relays": [line]})
        swarm.sections["checkpoint"] = {"store": f"file://{self.folder}/store"}
        self.enterContext(swarm)
        swarm.start()
        swarm.wait_step(20)
        run("shoal", "set", "--dir", swarm.peer_folder("p0"), "budget=100GB/month")
        addresses = {"shoal-scheduler": [swarm.address(), self.start_standby()],
                     "shoal-relay": [relay],
                     "shoal-peer": [swarm.address(name) for name in swarm.peers]}
        jobs = {job["job_name"] for job in load("prometheus/prometheus.yaml")["scrape_configs"]}
        self.assertEqual(jobs, set(addresses))
        self.assertGreater(len(list(expressions())), 60)

        def missing():
            exposed = {}
            for job, hosts in addresses.items():
                texts = [urllib.request.urlopen(f"http://{host}/metrics", timeout=30).read()
                         for host in hosts]
                exposed[job] = series_of(b"".join(texts).decode())
            return {text for expression, labels in expressions()
                    for text in missing_in(expression, labels, exposed)}
        # Some are there only after a checkpoint was copied, or in the second epoch.
        wait_for(lambda: not missing(), 90, lambda: f"these are missing: {missing()}", poll=1)
        self.assertEqual(list(missing_in('shoal_nothing{job="shoal-peer"}', {"x"},
                                         {"shoal-peer": []}))[0], "shoal_nothing of shoal-peer")

    def test_grafana_finds_datasource_and_dashboard(self):
        [source] = load("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
        [provider] = load("grafana/provisioning/dashboards/shoal.yaml")["providers"]
        mounts = dict(mount.split(":")[1::-1] for mount in
                      load("compose.monitoring.yaml")["services"]["grafana"]["volumes"])
        self.assertEqual(mounts[provider["options"]["path"]], "./grafana/dashboards")
        self.assertEqual(mounts["/etc/grafana/provisioning"], "./grafana/provisioning")
        taken = set()
        for panel in panels():
            self.assertEqual(panel["datasource"]["uid"], source["uid"], panel["title"])
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, f"{panel['title']} lies over another panel")
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken |= cells


class ComposeTest(unittest.TestCase):

    def test_files_fit_each_other(self):
        services = load("compose.yaml")["services"]
        for name in ("compose.gpu.yaml", "compose.monitoring.yaml"):
            for service, more in load(name)["services"].items():
                services.setdefault(service, {}).update(more)
        for service in services.values():
            for mount in service.get("volumes", ()):
                source = mount.split(":")[0]
                if source.startswith("."):
                    self.assertTrue((DEPLOY / source).exists(), source)
        for name in ("schedulers", "peers", "relays"):
            for target in load(f"prometheus/targets/{name}.yaml")[0]["targets"]:
                host, port = target.split(":")
                published = [mount.rsplit(":", 1)[1] for mount in services[host]["ports"]]
                self.assertIn(port, published, target)


class ChartTest(harness.SwarmTest):
    """Without Helm only what stands in the templates; with it also what it makes of them."""

    def templates(self):
        return {path.name: path.read_text() for path in (CHART / "templates").iterdir()}

    def test_values_are_there_and_used(self):
        values, used = load("helm/shoal/values.yaml"), set()
        for name, text in self.templates().items():
            for path in re.findall(r"\.Values((?:\.\w+)+)", text):
                value = values
                for part in path.split(".")[1:]:
                    if part == "etcd" and value is values["settings"]["scheduler"]:
                        break  # a key of run.toml that may be absent
                    self.assertIn(part, value, f"{name}: .Values{path}")
                    value = value[part]
                used.add(path)

        def leaves(path, value):
            if path in used or path == ".settings":
                return
            self.assertIsInstance(value, dict, f"no template uses {path}")
            for key, inner in value.items():
                leaves(f"{path}.{key}", inner)
        leaves("", values)

    def test_blocks_of_templates_end(self):
        for name, text in self.templates().items():
            begun = len(re.findall(r"\{\{-? (?:if|range|with|define)\b", text))
            self.assertEqual(begun, len(re.findall(r"\{\{-? end\b", text)), name)
            self.assertEqual(text.count("{{"), text.count("}}"), name)

    def test_versions_are_those_of_the_changelog(self):
        changes = (harness.SOURCE / "CHANGELOG.md").read_text()
        newest = re.search(r"^## \[(\d+\.\d+\.\d+)\]", changes, re.M)[1]
        self.assertEqual(load("helm/shoal/Chart.yaml")["appVersion"], newest)

    def test_programs_take_the_flags_and_settings(self):
        templates = self.templates()
        scheduler, relay = templates["scheduler.yaml"], templates["relay.yaml"]
        prepare = re.search(r"shoal prepare (.*\n.*)", scheduler)[1]
        for program, text in (("shoal-scheduler", scheduler.replace(prepare, "")),
                              ("shoal-relay", relay)):
            self.check_flags(text, run(program, "--help").stdout)
        self.check_flags(prepare, run("shoal", "prepare", "--help").stdout)
        if find("etcd"):
            done = subprocess.run([find("etcd"), "--help"], capture_output=True, text=True,
                                  check=False)
            self.check_flags(templates["etcd.yaml"], done.stdout + done.stderr)
        known = (DEPLOY / "run.toml").read_text()
        for section, keys in load("helm/shoal/values.yaml")["settings"].items():
            part = re.search(rf"(?ms)^\[{section}\]$(.*?)(?:^\[|\Z)", known)[1]
            for key in keys:
                self.assertRegex(part, rf"(?m)^{key} = ")

    def check_flags(self, text, help_text):
        flags = set(re.findall(r"(?<=[\s\[])--[a-z][a-z-]*", text))
        self.assertTrue(flags)
        self.assertEqual({flag for flag in flags
                          if not re.search(rf"{flag}(?![\w-])", help_text)}, set())

    def render(self, values):
        """Documents by kind and name."""
        if helm_python is not None:
            texts = helm_python.Chart.load(str(CHART)).render(values)
            text = "\n---\n".join(texts[name] for name in texts if name.endswith(".yaml"))
        else:
            path = self.folder / "values.json"
            path.write_text(json.dumps(values))
            done = subprocess.run(["helm", "template", "release-name", str(CHART), "-f", path],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)
            text = done.stdout
        return {(one["kind"], one["metadata"]["name"]): one for one in parse_yaml(text) if one}

    def check_settings(self, documents):
        path = self.folder / "run.toml"
        path.write_text(documents["Secret", "release-name-run"]["stringData"]["run.toml"])
        return run("shoal-scheduler", "--config", path, "--print-config").stdout

    @unittest.skipUnless(helm_python or shutil.which("helm"),
                         "there is neither helm nor helm_python (pip install helm-python-sdk)")
    def test_helm_renders_what_programs_take(self):
        documents = self.render({})
        self.assertEqual({name for kind, name in documents if kind == "StatefulSet"},
                         {"release-name-scheduler"})
        self.assertIn('advertise = ["release-name-scheduler-0.', self.check_settings(documents))
        documents = self.render({
            "etcd": {"enabled": True},
            "scheduler": {"replicas": 3, "keysSecret": "keys", "storeSecret": "aws"},
            "relay": {"enabled": True, "advertise": "relay.example.org"},
            "data": {"claim": "data"},
            "settings": {"optimizer": {"learning_rate": 5e-4}, "run": {"steps": 2_000_000},
                         "network": {"advertise": ["a.example.org", "b.example.org:99"]}}})
        self.assertEqual({name for kind, name in documents if kind == "StatefulSet"},
                         {f"release-name-{part}" for part in ("scheduler", "relay", "etcd")})
        settings = self.check_settings(documents)
        for line in ("steps = 2000000", 'advertise = ["a.example.org", "b.example.org:99"]',
                     "http://release-name-etcd-2.release-name-etcd:2379"):
            self.assertIn(line, settings)
        for document in documents.values():
            template = document["spec"].get("template") if "spec" in document else None
            if template:
                self.check_pod(template["spec"], document["spec"]["volumeClaimTemplates"])
        for bad in ({"scheduler": {"replicas": 3}}, {"relay": {"enabled": True}},
                    {"scheduler": {"replicas": 3, "keysSecret": "keys"}}):
            with self.assertRaises(Exception, msg=str(bad)):
                self.render(bad)

    def check_pod(self, pod, claims):
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        volumes |= {claim["metadata"]["name"] for claim in claims}
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            mounts = {mount["name"] for mount in container["volumeMounts"]}
            self.assertLessEqual(mounts, volumes)
            ports = {port["name"] for port in container.get("ports", ())}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                for kind in ("httpGet", "tcpSocket"):
                    port = container.get(probe, {}).get(kind, {}).get("port")
                    self.assertTrue(port is None or port in ports, probe)


if __name__ == "__main__":
    harness.main()
