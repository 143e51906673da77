"""Telemetry of a card through NVML: clock, temperature, power, and reasons for throttling."""

from __future__ import annotations

from typing import Any

from tuner.results import Telemetry

_REASONS = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}


def nvml_handle(device: Any) -> Any:
    """Return NVML's handle of the same physical card, or None if NVML does not answer."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByPciBusId(device.pci_bus_id().encode())
    except Exception:
        return None


def nvml_telemetry(handle: Any) -> Telemetry:
    if handle is None:
        return Telemetry()
    import pynvml

    def ask(question: Any, *arguments: Any) -> float | None:
        try:
            return float(question(handle, *arguments))
        except pynvml.NVMLError:
            return None

    power = ask(pynvml.nvmlDeviceGetPowerUsage)
    return Telemetry(
        clock_mhz=ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        temperature_c=ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        power_w=None if power is None else power / 1000,
        throttle=_throttle_reasons(ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)),
    )


def _throttle_reasons(mask: float | None) -> str:
    bits = int(mask or 0)
    return ", ".join(reason for bit, reason in _REASONS.items() if bits & bit)
