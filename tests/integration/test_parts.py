"""What `validate` says of probes and other parts of a template, beside what a real API server says of a Pod with the same template."""
import pytest

from test_labels import refused, says


def container(**fields):
    return {"spec": {"containers": [{"name": "main", "image": "x", **fields}]}}


def live(**fields):
    return container(livenessProbe={"tcpSocket": {"port": "http"}, **fields})


def probe(**fields):
    return container(livenessProbe=fields)


def pod(**fields):
    return {"spec": fields}


def spread(**fields):
    good = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}
    return pod(topologySpreadConstraints=[{k: v for k, v in {**good, **fields}.items() if v is not None}])


def spreads(*all_of_them):
    return pod(topologySpreadConstraints=[one["spec"]["topologySpreadConstraints"][0] for one in all_of_them])


def secure(**fields):
    return pod(securityContext=fields)


def claims(*names, **fields):
    return {"spec": {"resourceClaims": [fields], **container(resources={"claims": [{"name": n} for n in names]})["spec"]}}


GOOD = [
    live(periodSeconds=0, timeoutSeconds=0, failureThreshold=0, successThreshold=0, terminationGracePeriodSeconds=1),
    probe(exec={"command": ["ls"]}), probe(httpGet={"port": 80, "scheme": "", "httpHeaders": [{"name": "A", "value": ""}]}), probe(grpc={"port": 1}),
    probe(httpGet={"port": "a-1"}), container(readinessProbe={"tcpSocket": {"port": 1}, "successThreshold": 2}),
    container(lifecycle={"preStop": {"sleep": {"seconds": 5}}, "postStart": {"exec": {"command": ["ls"]}}}),
    container(lifecycle={"preStop": {"sleep": {}}}), probe(exec={"command": ["ls", None]}), pod(nodeName="a.b"), pod(nodeName=""),
    pod(hostAliases=[{"ip": "010.0.00.1"}], dnsConfig={"nameservers": ["00.1.1.1"]}),
    secure(seccompProfile={"type": "Localhost", "localhostProfile": "a/..b"}, supplementalGroups=[None]),
    spread(minDomains=2, nodeTaintsPolicy="Honor"), spread(matchLabelKeys=["x"]), spread(whenUnsatisfiable="ScheduleAnyway"),
    pod(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a.b", "c"]}, {"ip": "::1"}]),
    pod(dnsPolicy="None", dnsConfig={"nameservers": ["10.0.0.1", "fd00::1"], "searches": ["a_b.", "."], "options": [{"name": "ndots", "value": "2"}]}),
    pod(dnsConfig={"searches": ["a.b", "_tcp.a-b.", "x_y"]}),
    probe(httpGet={"port": 80, "httpHeaders": [{"name": "X-A1", "value": "b"}, {"name": "X-A1", "value": "c"}]}),
    spreads(spread(), spread(whenUnsatisfiable="ScheduleAnyway"), spread(topologyKey="host")),
    secure(sysctls=[{"name": "net/ipv4/ip_local-port.range", "value": "1"}]),
    claims("g", name="g", resourceClaimName="x"), claims(name="g", resourceClaimTemplateName="x.y"),
    secure(runAsUser=0, runAsGroup=2147483647, fsGroup=1, supplementalGroups=[1, 2], fsGroupChangePolicy="Always", supplementalGroupsPolicy="Strict"),
    secure(seccompProfile={"type": "Localhost", "localhostProfile": "a.json"}, sysctls=[{"name": "net.ipv4.tcp_syncookies", "value": "1"}]),
    container(securityContext={"privileged": True, "runAsNonRoot": True, "procMount": "Default", "capabilities": {"add": ["IPC_LOCK"]}}),
    container(ports=[{"containerPort": 80, "name": "a-1-2"}, {"containerPort": 81, "name": "a23456789012345"}]),
    pod(hostPID=True, automountServiceAccountToken=False, activeDeadlineSeconds=1),
]
P = "containers.0.livenessProbe"
BAD = [  # and the path
    *[(live(**{key: -1}), f"{P}.{key}") for key in (
        "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold", "successThreshold", "terminationGracePeriodSeconds")],
    (live(periodSeconds="10"), f"{P}.periodSeconds"), (live(periodSeconds=1.5), f"{P}.periodSeconds"),
    (live(periodSeconds=2 ** 31), f"{P}.periodSeconds"),
    (live(successThreshold=2), f"{P}.successThreshold"), (live(terminationGracePeriodSeconds=0), f"{P}.terminationGracePeriodSeconds"),
    (container(startupProbe={"tcpSocket": {"port": 1}, "successThreshold": 2}), "containers.0.startupProbe.successThreshold"),
    (container(readinessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5}), "containers.0.readinessProbe"),
    *[(container(ports=[{"containerPort": 80, "name": name}]), "containers.0.ports.0.name") for name in ("123", "a--b", "-a", "a234567890123456", "A")],
    (live(exec={"command": ["ls"]}), P), (probe(periodSeconds=1), P), (container(livenessProbe="x"), P),
    (probe(exec={"command": "ls"}), f"{P}.exec.command"), (probe(exec={"command": ["ls", 1]}), f"{P}.exec.command.1"),
    (probe(exec={}), f"{P}.exec.command"), (probe(httpGet={"port": 80, "scheme": "http"}), f"{P}.httpGet.scheme"),
    (probe(httpGet={"path": "/"}), f"{P}.httpGet.port"), (probe(httpGet={"port": "8080"}), f"{P}.httpGet.port"),
    (probe(httpGet={"port": "a--b"}), f"{P}.httpGet.port"), (probe(httpGet={"port": "a-very-long-name"}), f"{P}.httpGet.port"),
    (probe(httpGet={"port": 80, "httpHeaders": [{"value": "v"}]}), f"{P}.httpGet.httpHeaders.0.name"),
    *[(probe(httpGet={"port": 80, "httpHeaders": [{"name": name, "value": "v"}]}), f"{P}.httpGet.httpHeaders.0.name") for name in ("X A", "X_A", "")],
    *[(probe(tcpSocket={"port": port}), f"{P}.tcpSocket.port") for port in (0, 65536, "Http", True)],
    (probe(grpc={"port": "x"}), f"{P}.grpc.port"), (probe(grpc={"port": 0}), f"{P}.grpc.port"),
    (container(lifecycle={"preStop": {}}), "containers.0.lifecycle.preStop"),
    (container(lifecycle={"preStop": {"sleep": {"seconds": -1}}}), "containers.0.lifecycle.preStop.sleep.seconds"),
    (container(tty="yes"), "containers.0.tty"),
    (spread(maxSkew=0), "topologySpreadConstraints.0.maxSkew"), (spread(maxSkew=None), "topologySpreadConstraints.0.maxSkew"),
    (spread(whenUnsatisfiable="Ignore"), "topologySpreadConstraints.0.whenUnsatisfiable"),
    (spread(whenUnsatisfiable=None), "topologySpreadConstraints.0.whenUnsatisfiable"),
    (spread(topologyKey=None), "topologySpreadConstraints.0"), (spread(minDomains=0), "topologySpreadConstraints.0.minDomains"),
    (spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway"), "topologySpreadConstraints.0"),
    (spread(matchLabelKeys=["x"], labelSelector=None), "topologySpreadConstraints.0"),
    (spread(nodeAffinityPolicy="honor"), "topologySpreadConstraints.0.nodeAffinityPolicy"),
    (pod(topologySpreadConstraints={}), "topologySpreadConstraints"),
    (spreads(spread(), spread(topologyKey="host"), spread(maxSkew=2)), "topologySpreadConstraints.2"),
    (pod(hostAliases=[{"hostnames": ["a"]}]), "hostAliases.0.ip"), (pod(hostAliases=[{"ip": "10.0.0"}]), "hostAliases.0.ip"),
    (pod(hostAliases=[{"ip": "10.0.0.1", "hostnames": "a"}]), "hostAliases.0.hostnames"),
    (pod(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a", "a_b"]}]), "hostAliases.0.hostnames.1"),
    (pod(dnsPolicy="None"), ""), (pod(dnsPolicy="None", dnsConfig={"nameservers": []}), ""),
    (pod(dnsConfig={"nameservers": ["dns"]}), "dnsConfig.nameservers.0"),
    (pod(dnsConfig={"nameservers": [f"1.1.1.{i}" for i in range(4)]}), "dnsConfig.nameservers"),
    *[(pod(dnsConfig={"searches": ["a", name]}), "dnsConfig.searches.1") for name in ("A.b", "-a", "a-", "a..b", "..", "", "x_.y", "_", "__y", "a." + 252 * "b")],
    (pod(dnsConfig={"options": [{"value": "1"}]}), "dnsConfig.options.0.name"),
    (pod(hostAliases=[{"ip": "010.0.0.256"}]), "hostAliases.0.ip"), (pod(nodeName="A"), "nodeName"),
    (probe(httpGet={"port": 80, "scheme": []}), f"{P}.httpGet.scheme"),
    (claims(name="g.h", resourceClaimName="x"), "resourceClaims.0.name"), (claims(name="g" * 64, resourceClaimName="x"), "resourceClaims.0.name"),
    (claims(name="g"), "resourceClaims.0"), (claims(resourceClaimName="x"), "resourceClaims.0.name"),
    (claims(name="g", resourceClaimName="x", resourceClaimTemplateName="z"), "resourceClaims.0"),
    (claims(name="g", resourceClaimName="X"), "resourceClaims.0.resourceClaimName"),
    (pod(resourceClaims=2 * [{"name": "g", "resourceClaimName": "x"}]), "resourceClaims.1"),
    (claims("h", name="g", resourceClaimName="x"), "containers.0.resources.claims.0"),
    *[(secure(**{key: value}), f"securityContext.{key}") for key in ("runAsUser", "runAsGroup", "fsGroup") for value in ("root", -1, 2 ** 31)],
    (secure(supplementalGroups=[1, -1]), "securityContext.supplementalGroups.1"),
    (secure(supplementalGroups=["a"]), "securityContext.supplementalGroups.0"),
    (secure(fsGroupChangePolicy="Never"), "securityContext.fsGroupChangePolicy"),
    (secure(supplementalGroupsPolicy="merge"), "securityContext.supplementalGroupsPolicy"),
    (secure(seccompProfile={}), "securityContext.seccompProfile.type"), (secure(seccompProfile={"type": "x"}), "securityContext.seccompProfile.type"),
    (secure(seccompProfile={"type": "Localhost"}), "securityContext.seccompProfile"),
    (secure(seccompProfile={"type": "Unconfined", "localhostProfile": "p"}), "securityContext.seccompProfile"),
    *[(secure(seccompProfile={"type": "Localhost", "localhostProfile": name}), "securityContext.seccompProfile") for name in ("/a", "a/..")],
    (secure(appArmorProfile={"type": "Localhost"}), "securityContext.appArmorProfile"),
    *[(secure(sysctls=[{"name": name, "value": "1"}]), "securityContext.sysctls.0.name") for name in ("", "kernel.Shm", "a..b", "a.", "/a", "-a")],
    (secure(sysctls=2 * [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]), "securityContext.sysctls.1"),
    (container(securityContext={"runAsNonRoot": "true"}), "containers.0.securityContext.runAsNonRoot"),
    (container(securityContext={"procMount": "x"}), "containers.0.securityContext.procMount"),
    (container(securityContext={"capabilities": {"add": "IPC_LOCK"}}), "containers.0.securityContext.capabilities.add"),
    (container(securityContext={"privileged": True, "allowPrivilegeEscalation": False}), "containers.0.securityContext"),
    (container(securityContext={"capabilities": {"add": ["CAP_SYS_ADMIN"]}, "allowPrivilegeEscalation": False}), "containers.0.securityContext"),
    (pod(hostPID=True, shareProcessNamespace=True), ""),
    (pod(hostIPC="yes"), "hostIPC"), (pod(activeDeadlineSeconds=0), "activeDeadlineSeconds"), (pod(runtimeClassName="A"), "runtimeClassName"),
]


@pytest.mark.parametrize("part", GOOD, ids=range(len(GOOD)))
def test_parts_that_the_api_server_takes_are_no_problem(plane, ns, tmp_path, part):
    assert refused(plane, ns, part) is None
    assert says(tmp_path, part) == ("1 job, 0 problems\n", 0)


@pytest.mark.parametrize("part,path", BAD, ids=range(len(BAD)))
def test_parts_that_the_api_server_rejects_are_one_problem_at_their_place(plane, ns, tmp_path, part, path):
    assert refused(plane, ns, part), part
    out, code = says(tmp_path, part)
    assert code == 1 and out.endswith("1 job, 1 problem\n"), out
    assert f" spec.worker.template.spec{path and '.' + path} " in out, out
