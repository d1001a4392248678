"""From a trial that the engine asks for to what its stack gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bitsect.bisect.engine.model import Axis, Trial, Vector
from bitsect.bisect.question_record import NOTHING, REST, Question
from bitsect.bisect.records import Observation
from bitsect.bisect.specimen import Specimen, TrialRunner
from bitsect.bisect.verdicts import Verdict
from bitsect.bisect.wording import label_of
from bitsect.images.errors import UnresolvedError
from bitsect.images.runtime.protocol import Mixer, Stack


@dataclass
class Observer:
    """Finds the stack of each trial, and has it run.

    An end runs once as it is. Its repetitions run on the same end put together from its parts:
    where these agree, the end repeats itself, and there is nothing about it that no part
    accounts for.

    :param notice: told what is worth knowing and stays true.

    An end that could not be put together from its parts is repeated as it is, and called so.
    """

    question: Question
    mixer: Mixer
    laboratory: TrialRunner
    notice: Callable[[str], None]
    _stacks: dict[Vector, Stack] = field(default_factory=dict)
    _rebuilt: dict[str, bool] = field(default_factory=dict)
    _whole_only: set[str] = field(default_factory=set)

    def observe(self, axes: tuple[Axis, ...], trial: Trial) -> tuple[Observation, str]:
        """What a trial gave, and where that came from."""
        end = self._end(axes, trial.vector)
        if end is not None and trial.repetition and not self._has_rest(axes):
            found = self._observe_rebuilt(axes, trial, end)
            if found is not None:
                return found
        return self._observe(axes, trial, lambda: end or self._hybrid(axes, trial.vector))

    def observe_as_it_is(self, axes: tuple[Axis, ...], trial: Trial) -> Observation:
        """What a repetition of an end gives that is not put together anew."""
        end = self._end(axes, trial.vector)
        assert end is not None, "only an end is ever put together anew"
        return self._observe(axes, trial, lambda: end)[0]

    def is_rebuilt(self, axes: tuple[Axis, ...], end: Stack) -> bool:
        """Whether repetitions of an end run on something else than the end itself."""
        if self._has_rest(axes):
            return False
        if end.reference not in self._rebuilt:
            try:
                self._rebuilt[end.reference] = self.mixer.rebuilt(end) is not end
            except UnresolvedError:
                self._rebuilt[end.reference] = True
        return self._rebuilt[end.reference]

    def label(self, axes: tuple[Axis, ...], trial: Trial) -> str:
        """A trial in words."""
        words = label_of(axes, trial.vector)
        if trial.repetition == 0:
            return words
        end = self._end(axes, trial.vector)
        if end is None or end.reference in self._whole_only:
            return f"{words}, run {trial.repetition + 1}"
        if self.is_rebuilt(axes, end):
            words += ", put together"
            if trial.repetition == 1:
                return words
        return f"{words}, run {trial.repetition + 1}"

    def _observe_rebuilt(
        self, axes: tuple[Axis, ...], trial: Trial, end: Stack
    ) -> tuple[Observation, str] | None:
        """None where the end cannot be put together; it then is repeated as it is."""
        observed = self._observe(axes, trial, lambda: self.mixer.rebuilt(end))
        if observed[0].failure is None or not self.is_rebuilt(axes, end):
            return observed
        self._whole_only.add(end.reference)
        self.notice(
            f"{end.reference} cannot be put together from its parts"
            f" ({observed[0].failure}: {observed[0].reason}), so whatever of it is no component"
            " is not ruled out"
        )
        return None

    def _observe(
        self, axes: tuple[Axis, ...], trial: Trial, stack_of: Callable[[], Stack]
    ) -> tuple[Observation, str]:
        label = self.label(axes, trial)
        try:
            stack = stack_of()
        except UnresolvedError as error:
            specimen = Specimen(self.question.good, trial.repetition, label)
            return self.laboratory.failed(specimen, Verdict.UNRESOLVED, error.reason), "resolver"
        moved = (axis.component for axis in axes)
        checked = tuple(name.removeprefix("pip:") for name in moved if name.startswith("pip:"))
        return self.laboratory.run(Specimen(stack, trial.repetition, label, checked))

    def _end(self, axes: tuple[Axis, ...], vector: Vector) -> Stack | None:
        if not any(vector):
            return self.question.good
        if all(point == axis.top for point, axis in zip(vector, axes, strict=True)):
            return self.question.bad
        return None

    def _hybrid(self, axes: tuple[Axis, ...], vector: Vector) -> Stack:
        if vector not in self._stacks:
            pins = {
                axis.component: None if axis.points[point] == NOTHING else axis.points[point]
                for point, axis in zip(vector, axes, strict=True)
                if point
            }
            self._stacks[vector] = self.mixer.hybrid(self.question.good, pins)
        return self._stacks[vector]

    @staticmethod
    def _has_rest(axes: tuple[Axis, ...]) -> bool:
        return axes[0].component == REST
