"""Answers one question with one peer and prints one line of JSON: accounting_worker.py SYSTEM INDEX.

The process is fresh, the package is imported and warmed with other numbers; only the answer itself is timed.
"""

import json
import resource
import sys
import time
import warnings

from accounting_peers import PEERS
from accounting_questions import QUESTIONS


def answer(peer, kind, numbers):
    if kind == "profile":
        sigma, rate, steps, points, top = numbers
        epsilons = [top * i / points for i in range(1, points + 1)]
        return peer.profile(sigma, rate, steps, epsilons)[-1]
    return getattr(peer, kind)(*numbers)


def main():
    warnings.simplefilter("ignore")
    system, question = sys.argv[1], QUESTIONS[int(sys.argv[2])]
    try:
        peer = PEERS[system]()
        answer(peer, question.kind, question.warm_up)
        start = time.process_time()
        result = float(answer(peer, question.kind, question.numbers))
        spent = time.process_time() - start
    except NotImplementedError:
        print(json.dumps({"absent": "has no such question"}))
        return
    except ImportError as error:
        print(json.dumps({"absent": f"does not import: {error}"}))
        return
    except Exception as error:
        print(json.dumps({"absent": f"failed: {type(error).__name__}: {error}"}))
        return
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"result": result, "cpu_seconds": spent, "peak_mb": peak}))


if __name__ == "__main__":
    main()
