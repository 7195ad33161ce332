from tests.kubesim.faults import Faults, Rule, answer, cut_before, delay


def test_the_nth_request_and_so_many_after_it() -> None:
    faults = Faults()
    faults.add(Rule(answer(500), verb="patch", path="*/nodes/*", nth=2, times=2))
    asked = [faults.action_for("patch", "/api/v1/nodes/n1") is not None for _ in range(5)]
    assert asked == [False, True, True, False, False]
    assert faults.action_for("get", "/api/v1/nodes/n1") is None
    assert faults.action_for("patch", "/api/v1/pods/n1") is None


def test_the_first_rule_that_hits_wins_and_zero_is_for_ever() -> None:
    faults = Faults()
    faults.add(Rule(cut_before(), nth=3))
    faults.add(Rule(delay(1), times=0))
    kinds = [action.kind for _ in range(4) if (action := faults.action_for("get", "/x"))]
    assert kinds == ["delay", "delay", "cut_before", "delay"]
    faults.clear()
    assert faults.action_for("get", "/x") is None
