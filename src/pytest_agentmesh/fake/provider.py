"""A provider for Faker: tasks, agents and what they say and use, in the words of `vocabulary`.

It imports Faker, so only `fake` imports it, and late. All its chance is its generator's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from faker.providers import BaseProvider

from pytest_agentmesh.fake import shapes
from pytest_agentmesh.fake.phases import ASPECTS, FEATURES, PHASES, Phase
from pytest_agentmesh.fake.vocabulary import (
    ADDITIONS,
    COMPONENTS,
    ERRORS,
    LAYOUTS,
    MODELS,
    NOTES,
    SECRETS,
    SUMMARIES,
    SYMPTOMS,
    WORKS,
    ErrorKind,
    Layout,
    slug,
    usd,
)

Spec = dict[str, Any]
CACHED_SHARES: Final = (0.0, 0.0, 0.5, 0.8, 0.9, 0.95)
"""Of a prompt; the first turn of a conversation finds nothing in the cache."""
LONGEST_PROMPT: Final = 180_000
LONGEST_OUTPUT: Final = 16_000
READS: Final = 20
"""How many of the tasks above a task of a plan are named in its reads at most."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The part of a product that something is about."""

    layout: Layout
    component: str
    module: str

    @property
    def words(self) -> dict[str, str]:
        """For the gaps in a text."""
        return {"component": self.component, "module": self.module, "language": self.layout.language}

    def paths(self, places: Iterable[str]) -> list[str]:
        """The patterns of these places."""
        return [self.layout.places[place].format(**self.words) for place in places]


class AgentWork(BaseProvider):
    """What software teams give to agents, and what agents answer.

    On a Faker of your own: `fake.add_provider(AgentWork)`, then `fake.agent_task()`.
    """

    def agent_subject(self) -> Subject:
        """A component of a product, in one language, and a module of it."""
        component = self.random_element(tuple(COMPONENTS))
        return Subject(self.random_element(LAYOUTS), component, self.random_element(COMPONENTS[component]))

    def agent_task(self) -> Spec:
        """A task of its own, without an id."""
        subject, work = self.agent_subject(), self.random_element(WORKS)
        words = self._words(subject)
        repository = f"{slug(self.generator.company())}/{subject.component}"
        return {
            "title": self.random_element(work.titles).format(**words),
            "description": self._description(self._story(), work.done, subject),
            "priority": self.random_int(*work.priorities),
            "requires": sorted(name.format(**words) for name in work.requires),
            "tags": [subject.component, work.kind],
            "writes": subject.paths(work.writes),
            "reads": subject.paths(work.reads),
            "payload": {"repository": repository, "issue": self.random_int(1, 9_999)},
            "estimate_usd": usd(self.random_int(*work.cents)),
            "lease_timeout_sec": self.random_element((60, 120, 300, 600)),
            "max_attempts": self.random_element((2, 3, 3, 3, 5)),
        }

    def agent_feature(self) -> str:
        """What a plan builds."""
        return self.random_element(FEATURES)

    def agent_plan(self, feature: str, name: str, edges: Sequence[Sequence[int]]) -> list[Spec]:
        """A feature on its way from design to release, in a graph; the ids begin with the plan's name.

        No two tasks that the graph lets run at once want the same file: each writes one of its own, and reads what
        those above it wrote.
        """
        subject = self.agent_subject()
        specs: list[Spec] = []
        for (phase, aspect), above in zip(self._steps(shapes.depths(edges)), edges, strict=True):
            spec = self._step(feature, name, phase, aspect, subject)
            spec["depends_on"] = [specs[place]["id"] for place in above]
            spec["reads"] = [path for place in above[:READS] for path in specs[place]["writes"]]
            specs.append(spec)
        return specs

    def agent_name(self, role: str) -> str:
        """Such as `coder-7f`."""
        return f"{role}-{self.random_int(0, 255):02x}"

    def agent_model(self) -> str:
        """A model, as its vendor writes it."""
        return self.random_element(tuple(MODELS))

    def agent_usage(self, model: str) -> dict[str, Any]:
        """What one call of the model used, each token counted once."""
        chance, known = self.generator.random, MODELS.get(model)
        prompt = min(400 + int(chance.lognormvariate(9.6, 0.9)), LONGEST_PROMPT)
        cached = int(prompt * self.random_element(CACHED_SHARES))
        written = (prompt - cached) * self.random_element((0, 70, 95)) // 100 if known and known.cache_writes else 0
        output = min(20 + int(chance.lognormvariate(6.5, 0.9)), LONGEST_OUTPUT)
        return {
            "model": model,
            "input_tokens": prompt - cached - written,
            "cached_input_tokens": cached,
            "cache_write_tokens": written,
            "output_tokens": output,
            "duration_ms": 300 + prompt // 50 + output * 1_000 // (known.tokens_per_sec if known else 50),
        }

    def agent_result(self) -> dict[str, Any]:
        """What an agent says of work that is done."""
        subject = self.agent_subject()
        files = subject.paths(("source", "tests"))
        return {
            "summary": self.random_element(SUMMARIES).format(**self._words(subject)),
            "commit": self.generator.sha1()[:12],
            "files": files,
            "diff": f"+{self.random_int(1, 400)} -{self.random_int(0, 200)}",
            "tests": {"passed": self.random_int(5, 900), "failed": 0},
        }

    def agent_error(self, kind: ErrorKind) -> str:
        """Why an attempt failed."""
        return self.random_element(ERRORS[kind]).format(**self._words(self.agent_subject()))

    def agent_note(self) -> str:
        """What an agent remarks while it works."""
        return self.random_element(NOTES).format(**self._words(self.agent_subject()))

    def agent_entry(self) -> dict[str, Any]:
        """What an agent leaves on a blackboard for others: a finding, a decision, a contract or a measurement."""
        subject = self.agent_subject()
        words = self._words(subject)
        namespace, value = self.random_element(
            (
                ("findings", {"cause": words["symptom"], "file": words["file"], "confidence": self._percent()}),
                (
                    "decisions",
                    {
                        "choice": self.random_element(ADDITIONS),
                        "asked": words["person"],
                        "final": self.random_element((True, False)),
                    },
                ),
                ("contracts", {"version": self.random_int(1, 9), "files": subject.paths(("source", "docs"))}),
                ("measurements", {"p99_ms": self.random_int(2, 900), "runs": self.random_int(3, 50)}),
            )
        )
        return {"namespace": f"{namespace}/{subject.component}", "key": subject.module, "value": value}

    def agent_patch(self) -> str:
        """A change as a unified diff, with its author and its reason."""
        words, timeout_sec = self._words(self.agent_subject()), self.random_int(1, 30)
        head = "From: {person}\nSubject: Fix {symptom} in {component} {module}\n\n".format(**words)
        file, line = words["file"], self.random_int(1, 300)
        change = f"@@ -{line} +{line} @@\n-timeout_sec = {timeout_sec}\n+timeout_sec = {10 * timeout_sec}\n"
        return f"{head}--- a/{file}\n+++ b/{file}\n{change}"

    def _step(self, feature: str, name: str, phase: Phase, aspect: str, subject: Subject) -> Spec:
        """A task of a plan, which as yet waits for nothing."""
        own = f"{name} {aspect}".strip()
        at = Subject(subject.layout, subject.component, slug(own).replace("-", "_"))
        words = {**subject.words, "feature": feature, "aspect": aspect}
        return {
            "id": f"{name}.{slug(f'{phase.name} {aspect}')}",
            "title": (phase.part if aspect else phase.whole).format(**words),
            "description": self._description(f"Part of {feature}.", phase.done, subject),
            "priority": self.random_int(2, 7),
            "tags": [name, phase.name],
            "writes": at.paths([phase.place]),
            "estimate_usd": usd(self.random_int(10, 300)),
            "lease_timeout_sec": self.random_element((60, 120, 300)),
        }

    def _steps(self, depths: Sequence[int]) -> list[tuple[Phase, str]]:
        """The phase of each task by its depth, and the aspect that it takes care of where several share a phase."""
        phases = _phases(depths)
        shared = {phase.name for phase, times in Counter(phases).items() if times > 1}
        order = self.random_elements(ASPECTS, length=len(ASPECTS), unique=True)
        seen: Counter[str] = Counter()
        steps = []
        for phase in phases:
            again, place = divmod(seen[phase.name], len(order))
            seen[phase.name] += 1
            aspect = f"{order[place]} {again + 1}" if again else order[place]
            steps.append((phase, aspect if phase.name in shared else ""))
        return steps

    def _story(self) -> str:
        count = self.random_int(2, 60)
        return f"Reported by {self._person()} of {self.generator.company()}; {count} others wait for it."

    def _description(self, story: str, done: Sequence[str], subject: Subject) -> str:
        command = subject.layout.command.format(**subject.words)
        criteria = [*self.random_elements(done, length=2, unique=True), f"`{command}` passes"]
        return f"{story}\n\nAcceptance criteria:\n" + "".join(f"- {line}\n" for line in criteria)

    def _words(self, subject: Subject) -> dict[str, Any]:
        """Something for each gap that a text may have."""
        return {
            **subject.words,
            "file": subject.paths(["source"])[0],
            "symptom": self.random_element(SYMPTOMS),
            "addition": self.random_element(ADDITIONS),
            "secret": self.random_element(SECRETS),
            "library": self.random_element(subject.layout.libraries),
            "person": self._person(),
            "host": self.generator.hostname(),
            "commit": self.generator.sha1()[:12],
            "model": self.agent_model(),
            "count": self.random_int(2, 40),
        }

    def _person(self) -> str:
        return f"{self.generator.first_name()} {self.generator.last_name()}"

    def _percent(self) -> float:
        return self.random_int(50, 99) / 100


def _phases(depths: Sequence[int]) -> list[Phase]:
    """From design to release over the whole depth; a flat graph is the API, with what comes before or after it."""
    design, build, release = PHASES[0], PHASES[2], PHASES[-1]
    last = max(depths)
    if last == 0:
        return [build for _ in depths]
    if last == 1:
        first, second = (build, release) if depths.count(0) > depths.count(1) else (design, build)
        return [second if depth else first for depth in depths]
    return [PHASES[round(depth * (len(PHASES) - 1) / last)] for depth in depths]
