import test_client_steps as C
import test_higher_order as H

flex, kept_norm = H.flex, C.kept_norm


def test_a(trace):
    for b in (flex, kept_norm):
        t = trace(b)
        print(b, t.value, {k: v for k, v in t.report.components.items() if v})
        for h in t.report.holders[:30]:
            print("   ", h.bytes, h.count, h.component, h.operator, h.location, h.phase)
        print(t.report.caveats)
